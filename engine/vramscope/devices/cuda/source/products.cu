// Matrix products. T: element type of every operand; ROWS: activation rows of the vector kernels;
// LANES: threads side by side along the columns.
struct Gemm {
  i64 m, n, k, a_m, a_k, b_k, b_n, c_m, bias_m, bias_n;
  i64 extent[3], a_batch[3], b_batch[3], c_batch[3];
  double alpha, beta;
};

// C = alpha · A · B + beta · bias for any strides; a block makes a 64 × 64 tile.
extern "C" __global__ __launch_bounds__(256) void gemm(Gemm g, const T* a, const T* b, const T* bias, T* c) { BEGIN();
  __shared__ float left[16][65], right[16][65];
  i64 rest = blockIdx.z;
#pragma unroll
  for (int axis = 2; axis >= 0; axis--) {
    i64 at = rest % g.extent[axis]; rest /= g.extent[axis];
    a += at * g.a_batch[axis]; b += at * g.b_batch[axis]; c += at * g.c_batch[axis];
  }
  i64 row0 = blockIdx.y * 64LL, column0 = blockIdx.x * 64LL;
  int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  float acc[4][4] = {};
  for (i64 k0 = 0; k0 < g.k; k0 += 16) {
    for (int i = threadIdx.x; i < 1024; i += 256) {
      int kk = g.a_k == 1 ? i % 16 : i / 64, r = g.a_k == 1 ? i / 16 : i % 64;
      left[kk][r] = (row0 + r < g.m && k0 + kk < g.k) ? wide(a[(row0 + r) * g.a_m + (k0 + kk) * g.a_k]) : 0.f;
      int kb = g.b_k == 1 ? i % 16 : i / 64, q = g.b_k == 1 ? i / 16 : i % 64;
      right[kb][q] = (column0 + q < g.n && k0 + kb < g.k) ? wide(b[(k0 + kb) * g.b_k + (column0 + q) * g.b_n]) : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; kk++) {
      float x[4], w[4];
#pragma unroll
      for (int i = 0; i < 4; i++) { x[i] = left[kk][ty * 4 + i]; w[i] = right[kk][tx + 16 * i]; }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) acc[i][j] += x[i] * w[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      i64 row = row0 + ty * 4 + i, column = column0 + tx + 16 * j;
      if (row < g.m && column < g.n) {
        float v = (float)g.alpha * acc[i][j];
        if (bias) v += (float)g.beta * wide(bias[row * g.bias_m + column * g.bias_n]);
        c[row * g.c_m + column] = To<T>::from(v);
      }
    }
  }
}

struct Gemv { i64 n, k, x_row, y_row; };

#define VEC (16 / (int)sizeof(T))

// y = x · W, W [k, n] with n side by side: threads walk down k, columns in 16-byte pieces.
extern "C" __global__ __launch_bounds__(256) void gemv_columns(Gemv g, const T* x, const T* w, T* y) { BEGIN();
  constexpr int GROUPS = 256 / LANES, PER_WARP = 32 / LANES;
  __shared__ float room[8][ROWS][LANES * VEC];
  int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, warp = threadIdx.x / 32;
  i64 column = (blockIdx.x * (i64)LANES + lane) * VEC;
  float acc[ROWS][VEC] = {};
  if (column < g.n) {
#pragma unroll 4
    for (i64 k = group; k < g.k; k += GROUPS) {
      float row[VEC];
      load_wide<VEC>(w + k * g.n + column, row);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        float v = wide(x[r * g.x_row + k]);
#pragma unroll
        for (int i = 0; i < VEC; i++) acc[r][i] += v * row[i];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int i = 0; i < VEC; i++) {
#pragma unroll
      for (int o = LANES; o < 32; o *= 2) acc[r][i] += __shfl_xor_sync(WHOLE_WARP, acc[r][i], o);
      if (threadIdx.x % 32 / LANES == 0) room[warp][r][lane * VEC + i] = acc[r][i];
    }
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * LANES * VEC; i += 256) {
    int r = i / (LANES * VEC), q = i % (LANES * VEC);
    float total = 0.f;
#pragma unroll
    for (int part = 0; part < 8; part++) total += room[part][r][q];
    i64 at = blockIdx.x * (i64)(LANES * VEC) + q;
    if (at < g.n) y[r * g.y_row + at] = To<T>::from(total);
  }
  (void)PER_WARP;
}

// y = x · Wᵀ, W [n, k] with k side by side: a warp makes one column.
extern "C" __global__ __launch_bounds__(256) void gemv_rows(Gemv g, const T* x, const T* w, T* y) { BEGIN();
  i64 column = blockIdx.x * 8LL + threadIdx.x / 32;
  if (column >= g.n) return;
  const T* row = w + column * g.k;
  float acc[ROWS] = {};
#pragma unroll 4
  for (i64 k = threadIdx.x % 32 * VEC; k < g.k; k += 32 * VEC) {
    float part[VEC];
    load_wide<VEC>(row + k, part);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      float v[VEC];
      load_wide<VEC>(x + r * g.x_row + k, v);
#pragma unroll
      for (int i = 0; i < VEC; i++) acc[r] += v[i] * part[i];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float total = warp_sum(acc[r]);
    if (threadIdx.x % 32 == 0) y[r * g.y_row + column] = To<T>::from(total);
  }
}
