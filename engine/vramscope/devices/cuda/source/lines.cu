// Softmax and reductions over lines of elements that lie a stride apart.
struct Lines { i64 width, step, inner, outer_step; i64 logarithm; };

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(WHOLE_WARP, v, o));
  return v;
}

template <class T> __device__ void softmax(const Lines& l, const T* x, T* y) {
  __shared__ float room[32];
  i64 base = (blockIdx.x / l.inner) * l.outer_step + blockIdx.x % l.inner;
  float most = -INFINITE;
  bool broken = false;
  for (i64 i = threadIdx.x; i < l.width; i += blockDim.x) {
    float v = wide(x[base + i * l.step]); broken = broken || v != v; most = fmaxf(most, v); }
  most = warp_max(most);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = most;
  __syncthreads();
  most = warp_max(threadIdx.x % 32 < (blockDim.x + 31) / 32 ? room[threadIdx.x % 32] : -INFINITE);
  float total = broken ? __int_as_float(0x7fc00000) : 0.f;
  for (i64 i = threadIdx.x; i < l.width; i += blockDim.x) total += expf(wide(x[base + i * l.step]) - most);
  __syncthreads();
  total = block_sum(total, room);
  for (i64 i = threadIdx.x; i < l.width; i += blockDim.x) {
    float v = wide(x[base + i * l.step]) - most;
    y[base + i * l.step] = To<T>::from(l.logarithm ? v - logf(total) : expf(v) / total);
  }
}
extern "C" __global__ void softmax_float(Lines l, const float* x, float* y) { BEGIN(); softmax(l, x, y); }
extern "C" __global__ void softmax_f16(Lines l, const f16* x, f16* y) { BEGIN(); softmax(l, x, y); }
extern "C" __global__ void softmax_bf16(Lines l, const bf16* x, bf16* y) { BEGIN(); softmax(l, x, y); }

// A running sum along a line; reverse walks from the end, exclusive leaves the own element out.
struct Running { i64 lines, width, inner, reverse, exclusive; };
template <class T> __device__ void cumulate(const Running& r, const T* x, T* y) {
  for (i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x; n < r.lines; n += gridDim.x * (i64)blockDim.x) {
    i64 base = (n / r.inner) * r.width * r.inner + n % r.inner;
    auto total = wide(T{}); total = 0;
    for (i64 k = 0; k < r.width; k++) {
      i64 at = base + (r.reverse ? r.width - 1 - k : k) * r.inner;
      auto v = wide(x[at]);
      if (r.exclusive) { y[at] = To<T>::from(total); total += v; } else { total += v; y[at] = To<T>::from(total); }
    }
  }
}
#define CUMULATE(T) extern "C" __global__ void cumulate_##T(Running r, const T* x, T* y) { BEGIN(); cumulate(r, x, y); }
CUMULATE(float) CUMULATE(f16) CUMULATE(bf16) CUMULATE(i32) CUMULATE(i64) CUMULATE(double)
