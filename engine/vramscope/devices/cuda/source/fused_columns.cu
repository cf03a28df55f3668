// W [k, n], n side by side: LANES threads hold LANES · VEC columns, the groups of threads walk down k, and SHARES
// blocks of a cluster share k. The activation lies in shared memory as float; the weight arrives in a ring of STAGES
// slots of DEEP rows a group, each piece read by the thread that asked for it.
#define GROUPS (32 * WARPS / LANES)
#define TALL (DEEP * GROUPS)
#define WIDE (LANES * VEC)

struct Walk { i64 column, start, end; int lane, group; };

__device__ __forceinline__ void ask(const Fused& f, const Walk& at, u8* ring, int slot, i64 k) {
#pragma unroll
  for (int u = 0; u < DEEP; u++)
#pragma unroll
    for (int m = 0; m < MATS; m++) {
      i64 row = k + at.group + u * GROUPS;
      bool inside = at.column < f.n && row < at.end;
      const T* from = (const T*)f.w[m] + (inside ? row * f.n + at.column : 0);
      copy16(ring + (((slot * DEEP + u) * MATS + m) * 32 * WARPS + threadIdx.x) * 16, from, inside ? 16 : 0);
    }
}

extern "C" __global__ __launch_bounds__(32 * WARPS) void columns(Fused f) {
  extern __shared__ __align__(16) u8 raw[];
  __shared__ float room[WARPS][ROWS][MATS][WIDE], squares_room[WARPS][ROWS];
  int warp = threadIdx.x / 32, share = blockIdx.x % SHARES;
  i64 tile = blockIdx.x / SHARES, part = (f.k + SHARES - 1) / SHARES;
  Walk at = {tile * WIDE + threadIdx.x % LANES * VEC, share * part, share * part + part, (int)threadIdx.x % LANES,
             (int)threadIdx.x / LANES};
  if (at.end > f.k) at.end = f.k;
  u8* ring = raw;
  float* x = (float*)(raw + STAGES * DEEP * MATS * 32 * WARPS * 16);
  int padded = (int)((part + TALL - 1) / TALL * TALL);
  RELEASE();
#pragma unroll
  for (int u = 0; u < STAGES; u++) { ask(f, at, ring, u, at.start + u * TALL); COMMIT(); }
  warm_norm(f, at.start, at.end);
  warm_bias(f, tile * WIDE);
  WAIT();
  int own = share * 32 * WARPS + threadIdx.x;
  Tail tail = {};
  if (own < ROWS * WIDE) tail = tail_of(f, own / WIDE, tile * WIDE + own % WIDE);
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float squares = 0.f;
#pragma unroll 4
    for (int i = threadIdx.x; i < padded; i += 32 * WARPS)
      x[r * padded + i] = at.start + i < at.end ? element(f, r, at.start + i, &squares) : 0.f;
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0) squares_room[warp][r] = squares;
  }
  __syncthreads();
  float acc[ROWS][MATS][VEC] = {};
  int slot = 0;
  for (int base = 0; base < padded; base += TALL) {
    ARRIVED(STAGES - 1);
#pragma unroll
    for (int u = 0; u < DEEP; u++) {
      float v[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++) v[r] = x[r * padded + base + u * GROUPS + at.group];
#pragma unroll
      for (int m = 0; m < MATS; m++) {
        float w[VEC];
        load_wide<VEC>((const T*)(ring + (((slot * DEEP + u) * MATS + m) * 32 * WARPS + threadIdx.x) * 16), w);
#pragma unroll
        for (int i = 0; i < VEC; i++)
#pragma unroll
          for (int r = 0; r < ROWS; r++) acc[r][m][i] += v[r] * w[i];
      }
    }
    ask(f, at, ring, slot, at.start + base + STAGES * TALL);
    COMMIT();
    slot = slot + 1 == STAGES ? 0 : slot + 1;
  }
  ARRIVED(0);
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int m = 0; m < MATS; m++)
#pragma unroll
      for (int i = 0; i < VEC; i++) {
#pragma unroll
        for (int o = LANES; o < 32; o *= 2) acc[r][m][i] += __shfl_xor_sync(WHOLE_WARP, acc[r][m][i], o);
        if (threadIdx.x % 32 < LANES) room[warp][r][m][at.lane * VEC + i] = acc[r][m][i];
      }
  __syncthreads();
#if SHARES > 1
  // Each block adds up its own part, then the blocks of the cluster finish some of the columns each.
  __shared__ float whole[ROWS][MATS][WIDE], whole_square[ROWS];
  for (int i = threadIdx.x; i < ROWS * WIDE; i += 32 * WARPS) {
    int r = i / WIDE, q = i % WIDE;
#pragma unroll
    for (int m = 0; m < MATS; m++) {
      float total = 0.f;
#pragma unroll
      for (int w = 0; w < WARPS; w++) total += room[w][r][m][q];
      whole[r][m][q] = total;
    }
    float square = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) square += squares_room[w][r];
    if (q == 0) whole_square[r] = square;
  }
  CLUSTER_SYNC();
#endif
  for (int i = own; i < ROWS * WIDE; i += SHARES * 32 * WARPS) {
    int r = i / WIDE, q = i % WIDE;
    i64 column = tile * WIDE + q;
    float total[2] = {}, square = 0.f;
#if SHARES > 1
    float parts[SHARES][MATS], squares_of[SHARES];
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
#else
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
#pragma unroll
      for (int m = 0; m < MATS; m++) total[m] += room[w][r][m][q];
      square += squares_room[w][r];
    }
#endif
    float inverse = inverse_of(f, square);
    if (i != own) tail = tail_of(f, r, column);
    if (column < f.n) finish(f, tail, r, column, total[0] * inverse, total[1] * inverse);
  }
#if SHARES > 1
  CLUSTER_SYNC();
#endif
}
