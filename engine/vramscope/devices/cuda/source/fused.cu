// Products of a few rows with what surrounds them: RMS norm before; bias, residual, gated activation behind.
// T: element type; ROWS: activation rows; NORM, SKIP: x is normed, after adding skip; PAIR: two weights whose
// results are joined as act(first) · second (1 silu, 2 gelu, 3 gelu by tanh). Weights are constants: their
// first loads are issued before the kernel waits for its predecessor.
#define MATS (PAIR ? 2 : 1)
#define VEC (16 / (int)sizeof(T))
#define WARPS 8

struct Fused {
  const T* x; const T* skip; const T* gamma; const T* residual; T* y;
  const void* w[2]; const T* scales[2]; const void* zeros[2]; const T* bias[2];
  i64 n, k, x_row, skip_row, residual_row, y_row;
  i64 blocks, block, row_bytes, zero_bytes;
  double epsilon;
};

__device__ __forceinline__ float activated(float v) {
#if PAIR == 1
  return v / (1.f + expf(-v));
#elif PAIR == 2
  return 0.5f * v * (1.f + erff(v * 0.70710678f));
#elif PAIR == 3
  return 0.5f * v * (1.f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
#else
  return v;
#endif
}

__device__ __forceinline__ void finish(const Fused& f, int r, i64 column, float first, float second) {
  if (f.bias[0]) first += wide(f.bias[0][column]);
#if PAIR
  if (f.bias[1]) second += wide(f.bias[1][column]);
  first = activated(first) * second;
#endif
  if (f.residual) first += wide(f.residual[r * f.residual_row + column]);
  f.y[r * f.y_row + column] = To<T>::from(first);
}

// One element of the activation: x + skip, and with a norm its square and its factor.
__device__ __forceinline__ float element(const Fused& f, int r, i64 k, float* squares) {
  float v = wide(f.x[r * f.x_row + k]);
#if SKIP
  v += wide(f.skip[r * f.skip_row + k]);
#endif
#if NORM
  *squares += v * v;
  v *= wide(f.gamma[k]);
#endif
  return v;
}

__device__ __forceinline__ float inverse_of(const Fused& f, float squares) {
#if NORM
  return 1.f / sqrtf(squares / (float)f.k + (float)f.epsilon);
#else
  return 1.f;
#endif
}

#ifdef LANES
#define GROUPS (32 * WARPS / LANES)
#define DEEP 8

// W [k, n], n side by side: LANES threads hold LANES · VEC columns, the groups of threads share k.
extern "C" __global__ __launch_bounds__(32 * WARPS) void columns(Fused f) {
  __shared__ float room[WARPS][ROWS][MATS][LANES * VEC];
  __shared__ float square_room[WARPS][ROWS];
  int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, warp = threadIdx.x / 32;
  i64 tile = blockIdx.x / SHARES, share = blockIdx.x % SHARES;
  i64 column = (tile * (i64)LANES + lane) * VEC;
  bool inside = column < f.n;
  i64 part = (f.k + SHARES - 1) / SHARES, start = share * part, end = start + part < f.k ? start + part : f.k;
  float acc[ROWS][MATS][VEC] = {}, squares[ROWS] = {};
  Pack<T, VEC> w[DEEP][MATS];
  RELEASE();
#pragma unroll
  for (int u = 0; u < DEEP; u++) {
    i64 k = start + group + u * GROUPS;
#pragma unroll
    for (int m = 0; m < MATS; m++)
      if (inside && k < end) w[u][m] = *(const Pack<T, VEC>*)((const T*)f.w[m] + k * f.n + column);
  }
  WAIT();
  for (i64 base = start + group; base < end; base += DEEP * GROUPS) {
    float v[DEEP][ROWS];
#pragma unroll
    for (int u = 0; u < DEEP; u++) {
      i64 k = base + u * GROUPS;
#pragma unroll
      for (int r = 0; r < ROWS; r++) v[u][r] = k < end ? element(f, r, k, &squares[r]) : 0.f;
    }
#pragma unroll
    for (int u = 0; u < DEEP; u++) {
      i64 k = base + u * GROUPS, next = k + DEEP * GROUPS;
      if (inside && k < end) {
#pragma unroll
        for (int m = 0; m < MATS; m++) {
#pragma unroll
          for (int i = 0; i < VEC; i++) {
            float weight = wide(w[u][m].v[i]);
#pragma unroll
            for (int r = 0; r < ROWS; r++) acc[r][m][i] += v[u][r] * weight;
          }
          if (next < end) w[u][m] = *(const Pack<T, VEC>*)((const T*)f.w[m] + next * f.n + column);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
#pragma unroll
    for (int m = 0; m < MATS; m++)
#pragma unroll
      for (int i = 0; i < VEC; i++) {
#pragma unroll
        for (int o = LANES; o < 32; o *= 2) acc[r][m][i] += __shfl_xor_sync(WHOLE_WARP, acc[r][m][i], o);
        if (threadIdx.x % 32 < LANES) room[warp][r][m][lane * VEC + i] = acc[r][m][i];
      }
#pragma unroll
    for (int o = LANES; o < 32; o *= 2) squares[r] += __shfl_xor_sync(WHOLE_WARP, squares[r], o);
    if (threadIdx.x % 32 == 0) square_room[warp][r] = squares[r];
  }
  __syncthreads();
#if SHARES > 1
  // The blocks of a cluster share k: each adds up its own part, then every block finishes some of the columns.
  __shared__ float whole[ROWS][MATS][LANES * VEC], whole_square[ROWS];
  for (int i = threadIdx.x; i < ROWS * LANES * VEC; i += 32 * WARPS) {
    int r = i / (LANES * VEC), q = i % (LANES * VEC);
    float square = 0.f;
#pragma unroll
    for (int m = 0; m < MATS; m++) {
      float total = 0.f;
#pragma unroll
      for (int w = 0; w < WARPS; w++) total += room[w][r][m][q];
      whole[r][m][q] = total;
    }
#pragma unroll
    for (int w = 0; w < WARPS; w++) square += square_room[w][r];
    if (q == 0) whole_square[r] = square;
  }
  CLUSTER_SYNC();
  for (int i = (int)share * 32 * WARPS + threadIdx.x; i < ROWS * LANES * VEC; i += SHARES * 32 * WARPS) {
    int r = i / (LANES * VEC), q = i % (LANES * VEC);
    float total[2] = {}, square = 0.f, parts[SHARES][MATS], squares_of[SHARES];
#pragma unroll
    for (int c = 0; c < SHARES; c++) {
#pragma unroll
      for (int m = 0; m < MATS; m++) parts[c][m] = remote(&whole[r][m][q], c);
      squares_of[c] = NORM ? remote(&whole_square[r], c) : 0.f;
    }
#pragma unroll
    for (int c = 0; c < SHARES; c++) {
#pragma unroll
      for (int m = 0; m < MATS; m++) total[m] += parts[c][m];
      square += squares_of[c];
    }
    float inverse = inverse_of(f, square);
    i64 at = tile * (i64)(LANES * VEC) + q;
    if (at < f.n) finish(f, r, at, total[0] * inverse, total[1] * inverse);
  }
  CLUSTER_SYNC();
#else
  for (int i = threadIdx.x; i < ROWS * LANES * VEC; i += 32 * WARPS) {
    int r = i / (LANES * VEC), q = i % (LANES * VEC);
    float total[2] = {}, square = 0.f;
#pragma unroll
    for (int part = 0; part < WARPS; part++) {
#pragma unroll
      for (int m = 0; m < MATS; m++) total[m] += room[part][r][m][q];
      square += square_room[part][r];
    }
    float inverse = inverse_of(f, square);
    i64 at = blockIdx.x * (i64)(LANES * VEC) + q;
    if (at < f.n) finish(f, r, at, total[0] * inverse, total[1] * inverse);
  }
#endif
}

#else
#ifndef BITS
#define DEEP 2
#define EACH 4

// W [n, k], k side by side: a warp makes EACH columns; the activation waits in shared memory as float.
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
  WAIT();
  float inverse[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float squares = 0.f;
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
      if (lane == 0 && first + c < f.n) finish(f, r, first + c, total * inverse[r], 0.f);
    }
}

#else
// Packed weights of 4 or 8 bits through the matrix units: a block makes 16 columns, its warps share k. A thread
// holds 16 bytes of two weight rows; k slots of one product step are the codes that one mask takes out of a word,
// so the activation lies in shared memory in that order.
#define CODES (32 / BITS)
#define SPAN (4 * CODES)
#define WINDOW (4 * SPAN)

__device__ __forceinline__ u32 two(T v) { return (u32)v.bits * 0x10001u; }
#ifdef IS_HALF
#define SUB2(d, a, b) asm("sub.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b))
#define MUL2(d, a, b) asm("mul.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b))
#define MAGIC 0x64006400u
#define MAGIC_VALUE 1024.f
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define SUB2(d, a, b) asm("sub.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b))
#define MUL2(d, a, b) asm("mul.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b))
#define MAGIC 0x43004300u
#define MAGIC_VALUE 128.f
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif

// Pairs of codes of one word as two numbers each: MAGIC_VALUE + code.
__device__ __forceinline__ void spread(u32 word, u32* pairs) {
#if BITS == 4
#pragma unroll
  for (int i = 0; i < 4; i++) pairs[i] = (word >> (4 * i)) & 0x000f000fu | MAGIC;
#else
  asm("prmt.b32 %0, %1, %2, 0x5140;" : "=r"(pairs[0]) : "r"(word), "r"(0x64646464u));
  asm("prmt.b32 %0, %1, %2, 0x7362;" : "=r"(pairs[1]) : "r"(word), "r"(0x64646464u));
#endif
}

// Where element k of a word's codes lies among them in shared memory.
__device__ __forceinline__ int slot_of(int k) {
#if BITS == 4
  return (k % 4) * 2 + k / 4;
#else
  return k;
#endif
}

struct Lane { Pack<u32, 4> low, high; };

__device__ __forceinline__ Lane fetch(const Fused& f, int m, i64 row, i64 k) {
  Lane lane;
  const u8* from = (const u8*)f.w[m] + k * BITS / 8;
  i64 last = f.n - 1;
  lane.low = *(const Pack<u32, 4>*)(from + (row < last ? row : last) * f.row_bytes);
  lane.high = *(const Pack<u32, 4>*)(from + (row + 8 < last ? row + 8 : last) * f.row_bytes);
  return lane;
}

// Scale, and the number that a code and MAGIC_VALUE together are less their zero point.
__device__ __forceinline__ void parameters(const Fused& f, int m, i64 row, i64 block, u32* scale, u32* shift, u32* rest) {
  if (row >= f.n) row = f.n - 1;
  *scale = two(f.scales[m][row * f.blocks + block]);
#if ZERO == 0
  *shift = two(To<T>::from(MAGIC_VALUE + (float)(1 << (BITS - 1))));
#elif ZERO == 1
  u32 byte = ((const u8*)f.zeros[m])[row * f.zero_bytes + block * BITS / 8];
  *shift = two(To<T>::from(MAGIC_VALUE + (float)((byte >> (block * BITS % 8)) & ((1 << BITS) - 1))));
#else
  *shift = two(To<T>::from(MAGIC_VALUE));
  *rest = two(((const T*)f.zeros[m])[row * f.blocks + block]);
#endif
}

__device__ __forceinline__ void step(float* acc, const Lane& lane, int word, const u32* p, const T* x, bool live) {
  u32 low[CODES / 2], high[CODES / 2];
  spread(lane.low.v[word], low); spread(lane.high.v[word], high);
#pragma unroll
  for (int i = 0; i < CODES / 2; i++) {
    SUB2(low[i], low[i], p[1]); SUB2(high[i], high[i], p[4]);
#if ZERO == 2
    SUB2(low[i], low[i], p[2]); SUB2(high[i], high[i], p[5]);
#endif
    MUL2(low[i], low[i], p[0]); MUL2(high[i], high[i], p[3]);
  }
#pragma unroll
  for (int i = 0; i < CODES / 4; i++) {
    Pack<u32, 2> b = {};
    if (live) b = *(const Pack<u32, 2>*)(x + word * CODES + 4 * i);
    asm(PRODUCT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(low[2 * i]), "r"(high[2 * i]), "r"(low[2 * i + 1]), "r"(high[2 * i + 1]), "r"(b.v[0]), "r"(b.v[1]));
  }
}

#define DEEP (PAIR ? 1 : 2)

extern "C" __global__ __launch_bounds__(32 * WARPS) void packed(Fused f) {
  extern __shared__ __align__(16) u8 raw[];
  __shared__ float sums[32], parts[MATS][WARPS][ROWS][16];
  T* x = (T*)raw;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  i64 row0 = blockIdx.x * 16LL, padded = (f.k + SPAN - 1) / SPAN * SPAN;
  Lane held[DEEP][MATS];
  RELEASE();
#pragma unroll
  for (int u = 0; u < DEEP; u++) {
    i64 k = (warp + u * WARPS) * (i64)WINDOW + t * SPAN;
#pragma unroll
    for (int m = 0; m < MATS; m++) if (k < f.k) held[u][m] = fetch(f, m, row0 + g, k);
  }
  WAIT();
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float squares = 0.f, inverse = 1.f;
#if NORM
    for (i64 k = threadIdx.x; k < f.k; k += 32 * WARPS) element(f, r, k, &squares);
    inverse = inverse_of(f, block_sum(squares, sums));
#endif
    for (i64 k = threadIdx.x; k < padded; k += 32 * WARPS) {
      float v = k < f.k ? element(f, r, k, &squares) * inverse : 0.f;
      x[r * padded + k / CODES * CODES + slot_of((int)(k % CODES))] = To<T>::from(v);
    }
  }
  __syncthreads();
  (void)sums;
  float acc[MATS][4] = {};
  const T* own = x + (g < ROWS ? g : 0) * padded;
  for (i64 base = warp * (i64)WINDOW + t * SPAN; base - t * SPAN < f.k; base += (i64)DEEP * WARPS * WINDOW) {
#pragma unroll
    for (int u = 0; u < DEEP; u++) {
      i64 k = base + u * (i64)WARPS * WINDOW, next = k + (i64)DEEP * WARPS * WINDOW;
      if (k - t * SPAN >= f.k) continue;
      bool inside = k < f.k;
#pragma unroll
      for (int m = 0; m < MATS; m++) {
        Lane now = held[u][m];
        if (next < f.k) held[u][m] = fetch(f, m, row0 + g, next);
        u32 p[6] = {};
        if (inside) {
          parameters(f, m, row0 + g, k / f.block, p, p + 1, p + 2);
          parameters(f, m, row0 + g + 8, k / f.block, p + 3, p + 4, p + 5);
        } else { now = Lane{}; p[1] = p[4] = MAGIC; }
#pragma unroll
        for (int word = 0; word < 4; word++) {
          if (inside && word && f.block < SPAN) {
            i64 block = (k + word * CODES) / f.block;
            parameters(f, m, row0 + g, block, p, p + 1, p + 2);
            parameters(f, m, row0 + g + 8, block, p + 3, p + 4, p + 5);
          }
          step(acc[m], now, word, p, own + (inside ? k : 0), g < ROWS && inside);
        }
      }
    }
  }
#pragma unroll
  for (int m = 0; m < MATS; m++)
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (2 * t + i < ROWS) { parts[m][warp][2 * t + i][g] = acc[m][i]; parts[m][warp][2 * t + i][g + 8] = acc[m][2 + i]; }
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * 16; i += 32 * WARPS) {
    float total[2] = {};
#pragma unroll
    for (int m = 0; m < MATS; m++)
#pragma unroll
      for (int w = 0; w < WARPS; w++) total[m] += parts[m][w][i / 16][i % 16];
    i64 column = row0 + i % 16;
    if (column < f.n) finish(f, i / 16, column, total[0], total[1]);
  }
}
#endif
#endif
