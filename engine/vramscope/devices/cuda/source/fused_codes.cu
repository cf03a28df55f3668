// Packed weights of 4 or 8 bits where the matrix units do not do: float32, or few codes a scale. A warp makes EACH
// columns; the activation waits in shared memory as float, chunk by chunk: element i of every chunk side by side.
// BITS, BLOCK: codes that share a scale; ZERO 0: the middle code, 1: packed zero points, 2: zero points of T;
// WORDS: 4-byte words of one load.
#define EACH 2
#define CODES (32 / BITS)
#define CHUNK (WORDS * CODES)

__device__ __forceinline__ float zero_of(const Fused& f, int m, i64 column, i64 block) {
#if ZERO == 1
  u32 byte = ((const u8*)f.zeros[m])[column * f.zero_bytes + block * BITS / 8];
  return (float)(byte >> block * BITS % 8 & ((1u << BITS) - 1u));
#elif ZERO == 2
  return wide(((const T*)f.zeros[m])[column * f.blocks + block]);
#else
  return (float)(1 << (BITS - 1));
#endif
}

extern "C" __global__ __launch_bounds__(32 * WARPS) void codes(Fused f) {
  extern __shared__ float stored[];
  __shared__ float sums[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  i64 first = (blockIdx.x * (i64)WARPS + warp) * EACH, chunks = f.row_bytes / (4 * WORDS), side = chunks | 1;
  RELEASE();
#pragma unroll
  for (int m = 0; m < MATS; m++)
#pragma unroll
    for (int c = 0; c < EACH; c++)
      if (first + c < f.n && lane * 128LL < f.row_bytes) warm((const u8*)f.w[m] + (first + c) * f.row_bytes + lane * 128);
  warm_norm(f, 0, f.k);
  WAIT();
  float inverse[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float squares = 0.f;
#pragma unroll 4
    for (i64 k = threadIdx.x; k < chunks * CHUNK; k += 32 * WARPS)
      stored[(r * CHUNK + k % CHUNK) * side + k / CHUNK] = k < f.k ? element(f, r, k, &squares) : 0.f;
    inverse[r] = 1.f;
#if NORM
    inverse[r] = inverse_of(f, block_sum(squares, sums));
#endif
  }
  __syncthreads();
  (void)sums;
  float acc[MATS][ROWS][EACH] = {};
#pragma unroll 1
  for (i64 chunk = lane; chunk < chunks; chunk += 32) {
#pragma unroll
    for (int m = 0; m < MATS; m++) {
      Pack<u32, WORDS> own[EACH];
#pragma unroll
      for (int c = 0; c < EACH; c++) {
        own[c] = Pack<u32, WORDS>{};
        if (first + c < f.n) own[c] = *(const Pack<u32, WORDS>*)((const u8*)f.w[m] + (first + c) * f.row_bytes + chunk * 4 * WORDS);
      }
#pragma unroll
      for (int word = 0; word < WORDS; word++) {
        i64 block = (chunk * WORDS + word) * CODES / BLOCK;
        float scale[EACH], zero[EACH];
#pragma unroll
        for (int c = 0; c < EACH; c++) {
          bool inside = first + c < f.n && block < f.blocks;
          scale[c] = inside ? wide(f.scales[m][(first + c) * f.blocks + block]) : 0.f;
          zero[c] = inside ? zero_of(f, m, first + c, block) : 0.f;
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          float dot[EACH] = {}, sum = 0.f;
#pragma unroll
          for (int i = 0; i < CODES; i++) {
            float v = stored[(r * CHUNK + word * CODES + i) * side + chunk];
            sum += v;
#pragma unroll
            for (int c = 0; c < EACH; c++) dot[c] += v * (float)(own[c].v[word] >> i * BITS & ((1u << BITS) - 1u));
          }
#pragma unroll
          for (int c = 0; c < EACH; c++) acc[m][r][c] += scale[c] * (dot[c] - zero[c] * sum);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int c = 0; c < EACH; c++) {
      float total[MATS];
#pragma unroll
      for (int m = 0; m < MATS; m++) total[m] = warp_sum(acc[m][r][c]) * inverse[r];
      if (lane == 0 && first + c < f.n) finish(f, tail_of(f, r, first + c), r, first + c, total[0], total[MATS - 1]);
    }
}
