// W [n, k], k side by side: a warp makes EACH columns; the activation waits in shared memory as float.
#define DEEP 2
#define EACH 4

extern "C" __global__ __launch_bounds__(32 * WARPS) void lines(Fused f) {
  extern __shared__ float stored[];
  __shared__ float sums[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  i64 first = (blockIdx.x * (i64)WARPS + warp) * EACH;
  Pack<T, VEC> w[DEEP][EACH];
  RELEASE();
#pragma unroll
  for (int u = 0; u < DEEP; u++) {
    i64 k = (u * 32 + lane) * (i64)VEC;
#pragma unroll
    for (int c = 0; c < EACH; c++)
      if (first + c < f.n && k < f.k) w[u][c] = *(const Pack<T, VEC>*)((const T*)f.w[0] + (first + c) * f.k + k);
  }
  warm_norm(f, 0, f.k);
  WAIT();
  float inverse[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float squares = 0.f;
#pragma unroll 4
    for (i64 k = threadIdx.x; k < f.k; k += 32 * WARPS) stored[r * f.k + k] = element(f, r, k, &squares);
    inverse[r] = 1.f;
#if NORM
    inverse[r] = inverse_of(f, block_sum(squares, sums));
#endif
  }
  __syncthreads();
  (void)sums;
  float acc[ROWS][EACH] = {};
  for (i64 base = lane * (i64)VEC; base < f.k; base += DEEP * 32 * VEC) {
#pragma unroll
    for (int u = 0; u < DEEP; u++) {
      i64 k = base + u * 32 * VEC, next = k + DEEP * 32 * VEC;
      if (k < f.k) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
          for (int c = 0; c < EACH; c++)
#pragma unroll
            for (int i = 0; i < VEC; i++) acc[r][c] += stored[r * f.k + k + i] * wide(w[u][c].v[i]);
        if (next < f.k)
#pragma unroll
          for (int c = 0; c < EACH; c++)
            if (first + c < f.n) w[u][c] = *(const Pack<T, VEC>*)((const T*)f.w[0] + (first + c) * f.k + next);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int c = 0; c < EACH; c++) {
      float total = warp_sum(acc[r][c]);
      if (lane == 0 && first + c < f.n) finish(f, tail_of(f, r, first + c), r, first + c, total * inverse[r], 0.f);
    }
}
