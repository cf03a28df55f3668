// RMS norms of many rows, a block a row, everything in 16-byte pieces of registers. T: element type of every tensor;
// PIECES: of one thread.
#define VEC (16 / (int)sizeof(T))

// y = (x + skip) · gamma / rms(x + skip); the unrounded sum is normalised. Any output may be x or skip.
extern "C" __global__ void norm_pieces(i64 width, i64 rows_of_skip, float epsilon, const T* x, const T* skip,
                                       const T* gamma, T* y, T* total) { BEGIN();
  __shared__ float room[32];
  i64 at = blockIdx.x * width, other = skip ? blockIdx.x % rows_of_skip * width : 0;
  float v[PIECES][VEC], squares = 0.f;
#pragma unroll
  for (int p = 0; p < PIECES; p++) {
    int i = (p * blockDim.x + threadIdx.x) * VEC;
    if (i < width) load_wide<VEC>(x + at + i, v[p]);
  }
  if (skip) {
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
      int i = (p * blockDim.x + threadIdx.x) * VEC;
      float w[VEC];
      if (i < width) load_wide<VEC>(skip + other + i, w);
#pragma unroll
      for (int n = 0; n < VEC; n++) v[p][n] += w[n];
    }
  }
#pragma unroll
  for (int p = 0; p < PIECES; p++) {
    int i = (p * blockDim.x + threadIdx.x) * VEC;
#pragma unroll
    for (int n = 0; n < VEC; n++) squares += i < width ? v[p][n] * v[p][n] : 0.f;
  }
  float inverse = 1.f / sqrtf((blockDim.x > 32 ? block_sum(squares, room) : warp_sum(squares)) / (float)width + epsilon);
#pragma unroll
  for (int p = 0; p < PIECES; p++) {
    int i = (p * blockDim.x + threadIdx.x) * VEC;
    if (i >= width) continue;
    float w[VEC];
    load_wide<VEC>(gamma + i, w);
    Pack<T, VEC> out, sum;
#pragma unroll
    for (int n = 0; n < VEC; n++) { sum.v[n] = To<T>::from(v[p][n]); out.v[n] = To<T>::from(v[p][n] * inverse * w[n]); }
    if (total) *(Pack<T, VEC>*)(total + at + i) = sum;
    *(Pack<T, VEC>*)(y + at + i) = out;
  }
}
