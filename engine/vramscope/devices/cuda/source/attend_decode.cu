// One query row of narrow floats through the matrix units: append and attend in one launch.
// grid (CLUSTER, kv heads, batch), 32 · WARPS threads: the blocks of a head share its keys, each warp takes 16 at a
// time. S = Q · Kᵀ and O = P · V with the group's query heads as rows: scores leave the first product where the
// second one wants them. The elements of a head are dealt to lanes as they lie in memory, 16 bytes at a time; both
// operands are dealt alike, and results are put in order when they are written.
struct Fresh { const T* k; const T* v; const T* norm; i64 k_b, k_h, v_b, v_h; double epsilon; };

#define HALVES (HEAD / 64)
#define WORDS (HEAD / 8)
#define ROW (HEAD + 4)

#ifdef IS_HALF
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define JOIN(d, low, high) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low))
#else
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define JOIN(d, low, high) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low))
#endif

// Rows 8 to 15 of the left operand are 0.
__device__ __forceinline__ void multiply(float* c, u32 a0, u32 a2, u32 b0, u32 b1) {
  asm(PRODUCT " {%0,%1,%2,%3}, {%4,%5,%6,%5}, {%7,%8}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(0), "r"(a2), "r"(b0), "r"(b1));
}

// A lane's part of 16 keys (of two keys a quarter of the head) and of their values (of four an eighth of each half).
struct Held {
  Pack<u32, 4> key[2][WORDS / 4], value[4][HALVES];
#ifdef PAGED
  u32 gone;  // a bit for each of the 16 that is behind the end or has no block
#endif
};

__device__ __forceinline__ i64 value_row(i64 base, int n, int t) { return base + n / 2 * 8 + 2 * t + n % 2; }

#ifdef PAGED
// Each lane finds one of 16 rows of the pool and tells the others.
#define FIND(at) ((i64)__shfl_sync(WHOLE_WARP, mine, (int)((at) - base)))
#define THERE(j) ((j) >= 0)
#else
#define FIND(at) (at)
#define THERE(j) ((j) < end && (j) != row)
#endif

__device__ __forceinline__ void take(Held* h, const T* keys, const T* vals, const Attend& a, const Extent& e, i64 base,
                                     i64 end, i64 row) {
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#ifdef PAGED
  i64 own = base + threadIdx.x % 16;
  int mine = own < end ? (int)place(a.pages, e.entry, own) : -1;
  h->gone = __ballot_sync(WHOLE_WARP, mine < 0);
#endif
#pragma unroll
  for (int n = 0; n < 2; n++) {
    i64 j = FIND(base + 8 * n + g);
#pragma unroll
    for (int i = 0; i < WORDS / 4; i++) {
      h->key[n][i] = Pack<u32, 4>{};
      if (THERE(j)) h->key[n][i] = *(const Pack<u32, 4>*)(keys + j * a.k_s + t * (HEAD / 4) + 8 * i);
    }
  }
#pragma unroll
  for (int n = 0; n < 4; n++) {
    i64 j = FIND(value_row(base, n, t));
#pragma unroll
    for (int i = 0; i < HALVES; i++) {
      h->value[n][i] = Pack<u32, 4>{};
      if (THERE(j)) h->value[n][i] = *(const Pack<u32, 4>*)(vals + j * a.v_s + 64 * i + 8 * g);
    }
  }
}

// The newest row was not in the cache when the others were taken.
__device__ __forceinline__ void patch(Held* h, const T* key, const T* value, i64 base, i64 row) {
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < 2; n++)
    if (base + 8 * n + g == row)
#pragma unroll
      for (int i = 0; i < WORDS / 4; i++) h->key[n][i] = *(const Pack<u32, 4>*)(key + t * (HEAD / 4) + 8 * i);
#pragma unroll
  for (int n = 0; n < 4; n++)
    if (value_row(base, n, t) == row)
#pragma unroll
      for (int i = 0; i < HALVES; i++) h->value[n][i] = *(const Pack<u32, 4>*)(value + 64 * i + 8 * g);
}

// What a warp knows of the keys it has seen: of query head g maximum, own part of the sum, own weighted values.
struct Seen { float most, sum, out[HALVES][8][4]; };

__device__ __forceinline__ float power(float v) { return __expf(v); }

__device__ __forceinline__ void see(Seen* s, const Held& h, const Pack<u32, 4>* q, const Attend& a, i64 base, i64 end) {
  int t = threadIdx.x % 4;
  float score[2][4] = {};
#pragma unroll
  for (int n = 0; n < 2; n++)
#pragma unroll
    for (int i = 0; i < WORDS / 4; i++) {
      multiply(score[n], q[i].v[0], q[i].v[1], h.key[n][i].v[0], h.key[n][i].v[1]);
      multiply(score[n], q[i].v[2], q[i].v[3], h.key[n][i].v[2], h.key[n][i].v[3]);
    }
  float top = s->most;
#pragma unroll
  for (int n = 0; n < 2; n++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      if (a.softcap > 0) score[n][i] = (float)a.softcap * tanhf(score[n][i] / (float)a.softcap);
#ifdef PAGED
      if (h.gone >> (8 * n + 2 * t + i) & 1) score[n][i] = -INFINITE;
#else
      if (base + 8 * n + 2 * t + i >= end) score[n][i] = -INFINITE;
#endif
      top = fmaxf(top, score[n][i]);
    }
  top = fmaxf(top, __shfl_xor_sync(WHOLE_WARP, top, 1));
  top = fmaxf(top, __shfl_xor_sync(WHOLE_WARP, top, 2));
  float from = top == -INFINITE ? 0.f : top, keep = power(s->most - from);
  u32 weight[2];
#pragma unroll
  for (int n = 0; n < 2; n++) {
    float low = power(score[n][0] - from), high = power(score[n][1] - from);
    s->sum = (n ? s->sum : s->sum * keep) + low + high;
    JOIN(weight[n], low, high);
  }
  s->most = top;
#pragma unroll
  for (int i = 0; i < HALVES; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) {
      u32 b[2];
#pragma unroll
      for (int n = 0; n < 2; n++) {
        u32 even = h.value[2 * n][i].v[j / 2], odd = h.value[2 * n + 1][i].v[j / 2];
        asm("prmt.b32 %0, %1, %2, %3;" : "=r"(b[n]) : "r"(even), "r"(odd), "r"(j % 2 ? 0x7632 : 0x5410));
      }
      s->out[i][j][0] *= keep; s->out[i][j][1] *= keep;
      multiply(s->out[i][j], weight[0], weight[1], b[0], b[1]);
    }
}

// Where a result of `see` lies in a row of shared memory, and which element of the head lies at a place.
__device__ __forceinline__ int element_at(int place) { return place / 64 * 64 + place % 32 / 4 * 8 + place / 32 % 2 * 4 + place % 4; }

__device__ __forceinline__ void keep_results(const Seen& s, float* row) {
  int t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < HALVES; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int c = 0; c < 2; c++) {
        Pack<float, 4> four;
#pragma unroll
        for (int j = 0; j < 4; j++) four.v[j] = s.out[i][4 * half + j][c];
        *(Pack<float, 4>*)(row + 64 * i + 32 * half + 4 * (2 * t + c)) = four;
      }
}

struct Span { i64 low, high, begin, end; };

__device__ __forceinline__ Span span_of(const Attend& a, const Extent& e) {
  Span s;
  visible(a, e, e.offset, &s.low, &s.high);
  if (e.count < 1) s.high = s.low;
  i64 share = s.high > s.low ? (s.high - s.low + CLUSTER - 1) / CLUSTER : 0;
  s.begin = s.low + blockIdx.x * share; s.end = s.begin + share < s.high ? s.begin + share : s.high;
  return s;
}

extern "C" __global__ __launch_bounds__(32 * WARPS) void attend_decode(Attend a, Fresh n) {
  __shared__ __align__(16) float values[WARPS][ROWS][ROW];
  __shared__ __align__(16) T queries[8][HEAD + 8], fresh[2][HEAD];
  __shared__ float rough[WARPS][HEAD], most[WARPS][ROWS], sums[WARPS][ROWS], factors[WARPS][ROWS];
  __shared__ float block_most[ROWS], block_sums[ROWS], block_values[ROWS][HEAD];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  i64 b = blockIdx.z, kv = blockIdx.y, head0 = kv * ROWS;
  const T* keys = a.k + b * a.k_b + kv * a.k_h;
  const T* vals = a.v + b * a.v_b + kv * a.v_h;
  RELEASE();
#ifndef PAGED
  {
    // The length may be that of the step before, and is only a hint here: old rows come near while others work.
    Extent guess = extent_of(a.lengths, b);
    if (guess.total >= 0 && guess.total < a.lengths.keys) {
      Span s = span_of(a, guess);
      for (i64 j = s.begin + threadIdx.x; j < s.end; j += 32 * WARPS)
#pragma unroll
        for (int i = 0; i < HEAD; i += 64) { warm(keys + j * a.k_s + i); warm(vals + j * a.v_s + i); }
    }
  }
#endif
  WAIT();
  Extent e = EXTENT(a, b);
  i64 position = a.rotary.positions ? a.rotary.positions[b] : e.offset, newest = e.total - 1;
  Span span = span_of(a, e);
  // The newest row is not read back: the block whose share it is makes it, keeps it here and writes it to the cache.
  bool inside = span.begin <= newest && newest < span.end;
  bool makes = e.count == 1 && newest >= 0 && (inside || (newest >= span.high && blockIdx.x == 0));
#ifdef PAGED
  makes = false;  // a sequence may have several new tokens: all were appended before
#endif
  i64 row = makes ? newest : -1, base = span.begin + warp * 16;
  Held held;
  if (base < span.end) take(&held, keys, vals, a, e, base, span.end, row);
  for (int r = warp; r < 8 + 2; r += WARPS) {
    if (r < ROWS) {
      prepare(rough[warp], a.q + b * a.q_b + (head0 + r) * a.q_h, position, a.rotary, a.norm, (float)a.epsilon, (float)a.scale);
      for (int i = lane; i < HEAD; i += 32) queries[r][i] = To<T>::from(rough[warp][i]);
    } else if (r == ROWS && makes) {
      prepare(rough[warp], n.k + b * n.k_b + kv * n.k_h, position, a.rotary, n.norm, (float)n.epsilon, 1.f);
      T* to = (T*)keys + row * a.k_s;
      for (int i = lane; i < HEAD; i += 32) { T v = To<T>::from(rough[warp][i]); to[i] = v; fresh[0][i] = v; }
    } else if (r == ROWS + 1 && makes) {
      const T* from = n.v + b * n.v_b + kv * n.v_h;
      T* to = (T*)vals + row * a.v_s;
      for (int i = lane; i < HEAD; i += 32) { T v = from[i]; to[i] = v; fresh[1][i] = v; }
    }
    __syncwarp();
  }
  __syncthreads();
  Pack<u32, 4> q[WORDS / 4];
#pragma unroll
  for (int i = 0; i < WORDS / 4; i++) {
    q[i] = Pack<u32, 4>{};
    if (g < ROWS) q[i] = *(const Pack<u32, 4>*)(queries[g] + t * (HEAD / 4) + 8 * i);
  }
  Seen seen = {-INFINITE, 0.f, {}};
  for (; base < span.end; base += 16 * WARPS) {
    if (row >= base && row < base + 16) patch(&held, fresh[0], fresh[1], base, row);
    see(&seen, held, q, a, base, span.end);
    if (base + 16 * WARPS < span.end) take(&held, keys, vals, a, e, base + 16 * WARPS, span.end, row);
  }
  seen.sum += __shfl_xor_sync(WHOLE_WARP, seen.sum, 1);
  seen.sum += __shfl_xor_sync(WHOLE_WARP, seen.sum, 2);
  if (g < ROWS) {
    keep_results(seen, values[warp][g]);
    if (t == 0) { most[warp][g] = seen.most; sums[warp][g] = seen.sum; }
  }
  __syncthreads();
  if (threadIdx.x < WARPS * ROWS) {
    int r = threadIdx.x % ROWS, w = threadIdx.x / ROWS;
    float top = -INFINITE, total = 0.f;
#pragma unroll
    for (int i = 0; i < WARPS; i++) top = fmaxf(top, most[i][r]);
    float from = top == -INFINITE ? 0.f : top;
    factors[w][r] = power(most[w][r] - from);
    if (w == 0) {
#pragma unroll
      for (int i = 0; i < WARPS; i++) total += sums[i][r] * power(most[i][r] - from);
      block_most[r] = top; block_sums[r] = total;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * HEAD; i += 32 * WARPS) {
    int r = i / HEAD, p = i % HEAD;
    float v = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) v += values[w][r][p] * factors[w][r];
    block_values[r][p] = v;
  }
#if CLUSTER > 1
  CLUSTER_SYNC();
#else
  __syncthreads();
#endif
  for (int i = blockIdx.x * 32 * WARPS + threadIdx.x; i < ROWS * HEAD; i += 32 * WARPS * CLUSTER) {
    int r = i / HEAD, p = i % HEAD;
    float top = -INFINITE, total = 0.f, v = 0.f, tops[CLUSTER], totals[CLUSTER], parts[CLUSTER];
#pragma unroll
    for (int c = 0; c < CLUSTER; c++) {
#if CLUSTER > 1
      tops[c] = remote(&block_most[r], c); totals[c] = remote(&block_sums[r], c); parts[c] = remote(&block_values[r][p], c);
#else
      tops[c] = block_most[r]; totals[c] = block_sums[r]; parts[c] = block_values[r][p];
#endif
    }
#pragma unroll
    for (int c = 0; c < CLUSTER; c++) top = fmaxf(top, tops[c]);
    float from = top == -INFINITE ? 0.f : top;
#pragma unroll
    for (int c = 0; c < CLUSTER; c++) { float f = power(tops[c] - from); total += totals[c] * f; v += parts[c] * f; }
    i64 h = head0 + r;
    if (a.sink_zero) total += power(0.f - top); else if (a.sink) total += power(wide(a.sink[h]) - top);
    a.out[b * a.o_b + h * a.o_h + element_at(p)] = To<T>::from(top == -INFINITE ? 0.f : v / total);
  }
#if CLUSTER > 1
  CLUSTER_SYNC();
#endif
}
