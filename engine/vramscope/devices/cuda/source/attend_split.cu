// One query row: its keys shared by several blocks.
// grid (splits, kv heads × chunks of the group, batch), 32 · WARPS threads: one query position, a share of its keys.
// As a cluster along x the blocks join their shares in each other's shared memory, and the block whose share holds
// the newest key appends it first.
struct Fresh { const T* k; const T* v; const T* norm; i64 k_b, k_h, v_b, v_h; double epsilon; };

// One key row and its value row in a thread's pieces.
struct Pieces {
  Pack<T, VEC> key[PARTS], value[PARTS];
#ifdef PAGED
  bool there;
#endif
};

__device__ __forceinline__ void take(Pieces* p, const T* keys, const T* vals, const Attend& a, const Extent& e, i64 j,
                                     bool live, int part) {
#ifdef PAGED
  i64 row = live ? place(a.pages, e.entry, j) : -1;
  live = p->there = row >= 0; j = row;
#endif
#pragma unroll
  for (int n = 0; n < PARTS; n++) {
    int at = (n * SIDE + part) * VEC;
    p->key[n] = Pack<T, VEC>{}; p->value[n] = Pack<T, VEC>{};
    if (live && at < HEAD) {
      p->key[n] = *(const Pack<T, VEC>*)(keys + j * a.k_s + at); p->value[n] = *(const Pack<T, VEC>*)(vals + j * a.v_s + at);
    }
  }
}

struct Span { i64 low, high, begin, end; };

__device__ __forceinline__ Span span_of(const Attend& a, const Extent& e) {
  Span s;
  visible(a, e, e.offset, &s.low, &s.high);
  if (e.count < 1) s.high = s.low;
  i64 share = s.high > s.low ? (s.high - s.low + a.splits - 1) / a.splits : 0;
  s.begin = s.low + blockIdx.x * share; s.end = s.begin + share < s.high ? s.begin + share : s.high;
  return s;
}

extern "C" __global__ __launch_bounds__(32 * WARPS) void attend_split(Attend a, Fresh n) {
  constexpr int WIDTH = PARTS * VEC, SUBS = 32 / SIDE;
  __shared__ float queries[ROWS][PARTS * VEC * SIDE];
  __shared__ float most[WARPS][ROWS], sums[WARPS][ROWS], values[WARPS][ROWS][HEAD];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sub = lane / SIDE, part = lane % SIDE;
  i64 b = blockIdx.z, chunks = (a.group + ROWS - 1) / ROWS, kv = blockIdx.y / chunks;
  i64 head0 = kv * a.group + blockIdx.y % chunks * ROWS, heads = (kv + 1) * a.group - head0;
  const T* keys = a.k + b * a.k_b + kv * a.k_h;
  const T* vals = a.v + b * a.v_b + kv * a.v_h;
  RELEASE();
#if defined(CLUSTER) && !defined(PAGED)
  {
    // The length may be that of the step before, and is only a hint here: old rows come near while others work.
    Extent guess = extent_of(a.lengths, b);
    if (guess.total >= 0 && guess.total < a.lengths.keys) {
      Span s = span_of(a, guess);
      for (i64 j = s.begin + threadIdx.x; j < s.end; j += 32 * WARPS)
        for (int i = 0; i < HEAD; i += 128 / (int)sizeof(T)) { warm(keys + j * a.k_s + i); warm(vals + j * a.v_s + i); }
    }
  }
#endif
  WAIT();
  Extent e = EXTENT(a, b);
  i64 position = a.rotary.positions ? a.rotary.positions[b] : e.offset;
  Span s = span_of(a, e);
  i64 begin = s.begin, end = s.end, row = -1;
#ifdef CLUSTER
  // The newest row is not read back: the block whose share it is makes it, keeps it here and writes it to the cache.
  __shared__ float block_most[ROWS], block_sums[ROWS], block_values[ROWS][HEAD], fresh[2][PARTS * VEC * SIDE];
  i64 newest = e.total - 1;
  bool makes = e.count == 1 && newest >= 0 && ((begin <= newest && newest < end) || (newest >= s.high && blockIdx.x == 0));
#ifdef PAGED
  makes = false;  // a sequence may have several new tokens: all were appended before
#endif
  if (makes) row = newest;
#endif
  Pieces now;
  i64 first = begin + warp * SUBS;
  take(&now, keys, vals, a, e, first + sub, first + sub < end && first + sub != row, part);
  for (int r = warp; r < ROWS; r += WARPS) {
    for (int i = HEAD + lane; i < PARTS * VEC * SIDE; i += 32) queries[r][i] = 0.f;
    if (r < heads)
      prepare(queries[r], a.q + b * a.q_b + (head0 + r) * a.q_h, position, a.rotary, a.norm, (float)a.epsilon, (float)a.scale);
    else for (int i = lane; i < HEAD; i += 32) queries[r][i] = 0.f;
  }
#ifdef CLUSTER
  if (makes && warp == ROWS % WARPS) {
    prepare(fresh[0], n.k + b * n.k_b + kv * n.k_h, position, a.rotary, n.norm, (float)n.epsilon, 1.f);
    T* to = (T*)keys + row * a.k_s;
    for (int i = lane; i < HEAD; i += 32) { T v = To<T>::from(fresh[0][i]); to[i] = v; fresh[0][i] = wide(v); }
  } else if (makes && warp == (ROWS + 1) % WARPS) {
    const T* from = n.v + b * n.v_b + kv * n.v_h;
    T* to = (T*)vals + row * a.v_s;
    for (int i = lane; i < HEAD; i += 32) { T v = from[i]; to[i] = v; fresh[1][i] = wide(v); }
  }
#endif
  __syncthreads();
  float q[ROWS][WIDTH], acc[ROWS][WIDTH], m[ROWS], l[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    m[r] = -INFINITE; l[r] = 0.f;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) { q[r][i] = queries[r][(i / VEC * SIDE + part) * VEC + i % VEC]; acc[r][i] = 0.f; }
  }
  for (i64 j0 = first; j0 < end; j0 += WARPS * SUBS) {
    i64 j = j0 + sub, later = j + WARPS * SUBS;
#ifdef PAGED
    bool live = now.there;
#else
    bool live = j < end;
#endif
    float key[WIDTH], value[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; i++) { key[i] = wide(now.key[i / VEC].v[i % VEC]); value[i] = wide(now.value[i / VEC].v[i % VEC]); }
#ifdef CLUSTER
    if (j == row)
#pragma unroll
      for (int i = 0; i < WIDTH; i++) {
        int at = (i / VEC * SIDE + part) * VEC + i % VEC;
        if (at < HEAD) { key[i] = fresh[0][at]; value[i] = fresh[1][at]; }
      }
#endif
    take(&now, keys, vals, a, e, later, later < end && later != row, part);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      float s = 0.f;
#pragma unroll
      for (int i = 0; i < WIDTH; i++) s += q[r][i] * key[i];
#pragma unroll
      for (int o = SIDE / 2; o; o /= 2) s += __shfl_xor_sync(WHOLE_WARP, s, o);
      if (a.softcap > 0) s = (float)a.softcap * tanhf(s / (float)a.softcap);
      if (a.mask_kind && live && r < heads) s += bias_at(a, b, head0 + r, 0, e.base + j);
      if (!live) s = -INFINITE;
      float top = fmaxf(m[r], s);
      if (top > -INFINITE) {
        float keep = rescale(m[r], top), weight = expf(s - top);
        l[r] = l[r] * keep + weight; m[r] = top;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) acc[r][i] = acc[r][i] * keep + weight * value[i];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
#pragma unroll
    for (int o = SIDE; o < 32; o *= 2) {
      float m2 = __shfl_xor_sync(WHOLE_WARP, m[r], o), l2 = __shfl_xor_sync(WHOLE_WARP, l[r], o), top = fmaxf(m[r], m2);
      float f1 = rescale(m[r], top), f2 = rescale(m2, top);
      l[r] = l[r] * f1 + l2 * f2; m[r] = top;
#pragma unroll
      for (int i = 0; i < WIDTH; i++) acc[r][i] = acc[r][i] * f1 + __shfl_xor_sync(WHOLE_WARP, acc[r][i], o) * f2;
    }
    if (sub == 0) {
#pragma unroll
      for (int i = 0; i < WIDTH; i++) { int at = (i / VEC * SIDE + part) * VEC + i % VEC; if (at < HEAD) values[warp][r][at] = acc[r][i]; }
      if (part == 0) { most[warp][r] = m[r]; sums[warp][r] = l[r]; }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * HEAD; i += 32 * WARPS) {
    int r = i / HEAD, d = i % HEAD;
    if (r >= heads) continue;
    float top = -INFINITE, total = 0.f, v = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) top = fmaxf(top, most[w][r]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) { float f = rescale(most[w][r], top); total += sums[w][r] * f; v += values[w][r][d] * f; }
#ifdef CLUSTER
    block_values[r][d] = v;
    if (d == 0) { block_most[r] = top; block_sums[r] = total; }
  }
  CLUSTER_SYNC();
  for (int i = blockIdx.x * 32 * WARPS + threadIdx.x; i < ROWS * HEAD; i += 32 * WARPS * (int)a.splits) {
    int r = i / HEAD, d = i % HEAD;
    if (r >= heads) continue;
    float top = -INFINITE, total = 0.f, v = 0.f, tops[CLUSTER], totals[CLUSTER], parts[CLUSTER];
#pragma unroll
    for (int c = 0; c < CLUSTER; c++) {
      tops[c] = remote(&block_most[r], c); totals[c] = remote(&block_sums[r], c);
      parts[c] = remote(&block_values[r][d], c);
    }
#pragma unroll
    for (int c = 0; c < CLUSTER; c++) top = fmaxf(top, tops[c]);
#pragma unroll
    for (int c = 0; c < CLUSTER; c++) {
      float f = rescale(tops[c], top);
      total += totals[c] * f; v += parts[c] * f;
    }
    i64 h = head0 + r;
    if (a.sink_zero) total += expf(0.f - top); else if (a.sink) total += expf(wide(a.sink[h]) - top);
    a.out[b * a.o_b + h * a.o_h + d] = To<T>::from(top == -INFINITE ? 0.f : v / total);
  }
  CLUSTER_SYNC();
#else
    i64 h = head0 + r;
    if (a.splits == 1) {
      if (a.sink_zero) total += expf(0.f - top); else if (a.sink) total += expf(wide(a.sink[h]) - top);
      a.out[b * a.o_b + h * a.o_h + d] = To<T>::from(top == -INFINITE ? 0.f : v / total);
    } else {
      float* to = a.partial + ((b * a.heads + h) * a.splits + blockIdx.x) * (HEAD + 2);
      to[2 + d] = v;
      if (d == 0) { to[0] = top; to[1] = total; }
    }
  }
#endif
}

#ifndef CLUSTER
// grid (heads, batch): joins the shares of one row.
extern "C" __global__ void combine(Attend a) { BEGIN();
  i64 h = blockIdx.x, b = blockIdx.y;
  const float* from = a.partial + (b * a.heads + h) * a.splits * (HEAD + 2);
  float top = -INFINITE, total = 0.f;
  for (int s = 0; s < a.splits; s++) top = fmaxf(top, from[s * (HEAD + 2)]);
  for (int s = 0; s < a.splits; s++) total += from[s * (HEAD + 2) + 1] * rescale(from[s * (HEAD + 2)], top);
  if (a.sink_zero) total += expf(0.f - top); else if (a.sink) total += expf(wide(a.sink[h]) - top);
  for (int d = threadIdx.x; d < HEAD; d += blockDim.x) {
    float v = 0.f;
    for (int s = 0; s < a.splits; s++) v += from[s * (HEAD + 2) + 2 + d] * rescale(from[s * (HEAD + 2)], top);
    a.out[b * a.o_b + h * a.o_h + d] = To<T>::from(top == -INFINITE ? 0.f : v / total);
  }
}

#endif
