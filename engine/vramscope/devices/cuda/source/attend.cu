// Attention over a cache: append new keys and values, then attend. T: element type; HEAD: head size;
// VEC: elements of one load; SIDE: threads side by side along a key (a power of two); ROWS: query heads of a block.
#define PARTS ((HEAD + VEC * SIDE - 1) / (VEC * SIDE))

// Where one batch entry stands. kind 0: fixed; 1: seqlens_k + 1 (i32); 2: valid rows (i64); 3: valid rows (i32).
struct Lengths { i64 kind; const void* values; const i32* counts; i64 positions, keys, offset, fresh, capacity, window; };
struct Extent { i64 total, count, offset, held, base; };

__device__ __forceinline__ i64 kept_rows(i64 total, i64 capacity, i64 window) {
  if (total <= capacity) return total;
  i64 granule = capacity - window + 1;
  return total - granule * ((total - capacity + granule - 1) / granule);
}

__device__ __forceinline__ Extent extent_of(const Lengths& l, i64 b) {
  Extent e; e.count = l.positions; e.base = 0;
  if (l.kind == 1) {
    e.total = (i64)((const i32*)l.values)[b] + 1;
    e.count = l.counts ? (i64)l.counts[b] : (e.total < l.positions ? e.total : l.positions);
    e.offset = e.total - e.count;
  } else if (l.kind == 0) {
    e.total = l.keys; e.offset = l.offset;
  } else {
    i64 n = l.kind == 2 ? ((const i64*)l.values)[b] : (i64)((const i32*)l.values)[b];
    e.total = n < 0 ? 0 : n > l.keys ? l.keys : n;
    e.offset = e.total - l.fresh;
  }
  e.held = l.kind == 0 ? l.offset : e.total - e.count;
  if (l.window) { i64 past = e.held; e.held = kept_rows(past, l.capacity, l.window); e.base = past - e.held; }
  return e;
}

struct Rotary { const T* cos; const T* sin; const i64* positions; i64 half, interleaved, table; };

// A warp brings one head into shared memory: RMS norm with a weight, rotation, scale.
__device__ __forceinline__ void prepare(float* row, const T* from, i64 position, const Rotary& r, const T* norm,
                                        float epsilon, float scale) {
  int lane = threadIdx.x % 32;
  float squares = 0.f;
  for (int i = lane; i < HEAD; i += 32) { float v = wide(from[i]); row[i] = v; squares += v * v; }
  if (norm) {
    float inverse = 1.f / sqrtf(warp_sum(squares) / (float)HEAD + epsilon);
    for (int i = lane; i < HEAD; i += 32) row[i] = row[i] * inverse * wide(norm[i]);
  }
  __syncwarp();
  if (r.cos && position >= 0 && position < r.table) {
    for (int i = lane; i < r.half; i += 32) {
      int a = r.interleaved ? 2 * i : i, b = r.interleaved ? 2 * i + 1 : i + (int)r.half;
      float c = wide(r.cos[position * r.half + i]), s = wide(r.sin[position * r.half + i]), x = row[a], y = row[b];
      row[a] = x * c - y * s; row[b] = x * s + y * c;
    }
    __syncwarp();
  }
  if (scale != 1.f) { for (int i = lane; i < HEAD; i += 32) row[i] *= scale; __syncwarp(); }
}

struct Attend {
  const T* q; const T* k; const T* v; T* out; const void* mask; const T* sink; const T* norm; float* partial;
  i64 q_b, q_s, q_h, k_b, k_h, k_s, v_b, v_h, v_s, o_b, o_s, o_h, m_b, m_h, m_s, m_k;
  i64 mask_kind, mask_width, sink_zero, heads, group, left, right, splits;
  Lengths lengths; Rotary rotary; double scale, softcap, epsilon;
};

__device__ __forceinline__ float bias_at(const Attend& a, i64 b, i64 h, i64 s, i64 key) {
  i64 at = b * a.m_b + h * a.m_h + s * a.m_s + key * a.m_k;
  if (a.mask_kind == 1) return wide(((const boolean*)a.mask)[at]) ? 0.f : -INFINITE;
  return wide(((const T*)a.mask)[at]);
}

// The keys that the query at `position` sees, in columns of the cache.
__device__ __forceinline__ void visible(const Attend& a, const Extent& e, i64 position, i64* low, i64* high) {
  i64 stop = a.mask_kind && a.mask_width < e.total ? a.mask_width : e.total, first = e.base;
  if (a.right >= 0 && position + a.right + 1 < stop) stop = position + a.right + 1;
  if (a.left >= 0 && position - a.left > first) first = position - a.left;
  *low = first - e.base; *high = stop - e.base;
}

// Maximum m, sum l and weighted values acc of two disjoint sets of keys become those of their union.
__device__ __forceinline__ float rescale(float m, float most) { return m == -INFINITE ? 0.f : expf(m - most); }

#ifdef SPLIT
// grid (splits, kv heads × chunks of the group, batch), 32 · WARPS threads: one query position, a share of its keys.
// As a cluster along x the blocks join their shares in each other's shared memory, and the block whose share holds
// the newest key appends it first.
struct Fresh { const T* k; const T* v; const T* norm; i64 k_b, k_h, v_b, v_h; double epsilon; };

extern "C" __global__ __launch_bounds__(32 * WARPS) void attend_split(Attend a, Fresh n) { BEGIN();
  constexpr int WIDTH = PARTS * VEC, SUBS = 32 / SIDE;
  __shared__ float queries[ROWS][PARTS * VEC * SIDE];
  __shared__ float most[WARPS][ROWS], sums[WARPS][ROWS], values[WARPS][ROWS][HEAD];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sub = lane / SIDE, part = lane % SIDE;
  i64 b = blockIdx.z, chunks = (a.group + ROWS - 1) / ROWS, kv = blockIdx.y / chunks;
  i64 head0 = kv * a.group + blockIdx.y % chunks * ROWS, heads = (kv + 1) * a.group - head0;
  Extent e = extent_of(a.lengths, b);
  i64 position = a.rotary.positions ? a.rotary.positions[b] : e.offset;
  for (int r = warp; r < ROWS; r += WARPS) {
    for (int i = HEAD + lane; i < PARTS * VEC * SIDE; i += 32) queries[r][i] = 0.f;
    if (r < heads)
      prepare(queries[r], a.q + b * a.q_b + (head0 + r) * a.q_h, position, a.rotary, a.norm, (float)a.epsilon, (float)a.scale);
    else for (int i = lane; i < HEAD; i += 32) queries[r][i] = 0.f;
  }
  __syncthreads();
  i64 low, high;
  visible(a, e, e.offset, &low, &high);
  if (e.count < 1) high = low;
  i64 share = high > low ? (high - low + a.splits - 1) / a.splits : 0;
  i64 begin = low + blockIdx.x * share, end = begin + share < high ? begin + share : high;
#ifdef CLUSTER
  __shared__ float block_most[ROWS], block_sums[ROWS], block_values[ROWS][HEAD], fresh[HEAD];
  i64 row = e.total - 1;
  if (e.count == 1 && row >= 0 && ((begin <= row && row < end) || (row >= high && blockIdx.x == 0))) {
    if (warp == 0) {
      prepare(fresh, n.k + b * n.k_b + kv * n.k_h, position, a.rotary, n.norm, (float)n.epsilon, 1.f);
      T* to = (T*)a.k + b * a.k_b + kv * a.k_h + row * a.k_s;
      for (int i = lane; i < HEAD; i += 32) to[i] = To<T>::from(fresh[i]);
    } else if (warp == 1) {
      const T* from = n.v + b * n.v_b + kv * n.v_h;
      T* to = (T*)a.v + b * a.v_b + kv * a.v_h + row * a.v_s;
      for (int i = lane; i < HEAD; i += 32) to[i] = from[i];
    }
  }
  __syncthreads();
#endif
  float q[ROWS][WIDTH], acc[ROWS][WIDTH], m[ROWS], l[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    m[r] = -INFINITE; l[r] = 0.f;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) { q[r][i] = queries[r][(i / VEC * SIDE + part) * VEC + i % VEC]; acc[r][i] = 0.f; }
  }
  const T* keys = a.k + b * a.k_b + kv * a.k_h;
  const T* vals = a.v + b * a.v_b + kv * a.v_h;
  for (i64 j0 = begin + warp * SUBS; j0 < end; j0 += WARPS * SUBS) {
    i64 j = j0 + sub;
    bool live = j < end;
    float key[WIDTH], value[WIDTH];
#pragma unroll
    for (int n = 0; n < PARTS; n++) {
      int at = (n * SIDE + part) * VEC;
      if (live && at < HEAD) { load_wide<VEC>(keys + j * a.k_s + at, key + n * VEC); load_wide<VEC>(vals + j * a.v_s + at, value + n * VEC); }
      else for (int i = 0; i < VEC; i++) { key[n * VEC + i] = 0.f; value[n * VEC + i] = 0.f; }
    }
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
    float top = -INFINITE, total = 0.f, v = 0.f;
    for (int c = 0; c < a.splits; c++) top = fmaxf(top, remote(&block_most[r], c));
    for (int c = 0; c < a.splits; c++) {
      float f = rescale(remote(&block_most[r], c), top);
      total += remote(&block_sums[r], c) * f; v += remote(&block_values[r][d], c) * f;
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
#else
struct Append {
  const T* k; const T* v; T* keys; T* values; const T* norm;
  i64 k_b, k_s, k_h, v_b, v_s, v_h, keys_b, keys_h, keys_s, values_b, values_h, values_s, rows;
  Lengths lengths; Rotary rotary; double epsilon;
};

// grid (positions, kv heads, batch), one warp: a new key (normed, rotated) and value into their cache rows.
extern "C" __global__ void append(Append a) { BEGIN();
  __shared__ float row[HEAD];
  i64 s = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
  Extent e = extent_of(a.lengths, b);
  i64 to = (a.lengths.window ? e.held : e.offset) + s;
  if (s >= e.count || to < 0 || to >= a.rows) return;
  i64 position = a.rotary.positions ? a.rotary.positions[b * a.lengths.positions + s] : e.offset + s;
  prepare(row, a.k + b * a.k_b + s * a.k_s + h * a.k_h, position, a.rotary, a.norm, (float)a.epsilon, 1.f);
  const T* v = a.v + b * a.v_b + s * a.v_s + h * a.v_h;
  T* keys = a.keys + b * a.keys_b + h * a.keys_h + to * a.keys_s;
  T* values = a.values + b * a.values_b + h * a.values_h + to * a.values_s;
  for (int i = threadIdx.x; i < HEAD; i += 32) { keys[i] = To<T>::from(row[i]); values[i] = v[i]; }
}

struct Move { const T* from; T* to; i64 from_b, from_h, from_s, to_b, to_h, to_s, rows, clear; Lengths lengths; };

// Held rows of the past to the head of another buffer; with `clear` the rows behind the step's are zeroed.
extern "C" __global__ void copy_held(Move m) { BEGIN();
  Extent e = extent_of(m.lengths, blockIdx.z);
  const T* from = m.from + blockIdx.z * m.from_b + blockIdx.y * m.from_h;
  T* to = m.to + blockIdx.z * m.to_b + blockIdx.y * m.to_h;
  for (i64 row = blockIdx.x; row < m.rows; row += gridDim.x) {
    if (row < e.held && m.from) for (int i = threadIdx.x; i < HEAD; i += blockDim.x) to[row * m.to_s + i] = from[row * m.from_s + i];
    else if (m.clear && row >= e.total) for (int i = threadIdx.x; i < HEAD; i += blockDim.x) to[row * m.to_s + i] = To<T>::from(0.f);
  }
}

// The newest rows of a window, joined in `from`, back to the head of the cache.
extern "C" __global__ void settle(Move m) { BEGIN();
  Extent e = extent_of(m.lengths, blockIdx.z);
  i64 kept = kept_rows(e.total, m.lengths.capacity, m.lengths.window), first = e.held + e.count - kept;
  const T* from = m.from + blockIdx.z * m.from_b + blockIdx.y * m.from_h;
  T* to = m.to + blockIdx.z * m.to_b + blockIdx.y * m.to_h;
  for (i64 row = blockIdx.x; row < m.rows; row += gridDim.x)
    for (int i = threadIdx.x; i < HEAD; i += blockDim.x)
      if (row < kept) to[row * m.to_s + i] = from[(first + row) * m.from_s + i];
      else if (m.clear) to[row * m.to_s + i] = To<T>::from(0.f);
}

// grid (tiles of 32 queries, heads, batch), 128 threads; four threads share a query row.
extern "C" __global__ __launch_bounds__(128) void attend_tiled(Attend a) { BEGIN();
  constexpr int TILE = 32, MINE = (HEAD + 3) / 4;
  extern __shared__ float room[];
  float* queries = room;                       // [TILE][HEAD + 1]
  float* keys = queries + TILE * (HEAD + 1);   // [TILE][HEAD + 1]
  float* vals = keys + TILE * (HEAD + 1);      // [TILE][HEAD]
  float* weights = vals + TILE * HEAD;         // [TILE][TILE + 1]
  int warp = threadIdx.x / 32, row = threadIdx.x / 4, quad = threadIdx.x % 4;
  i64 h = blockIdx.y, b = blockIdx.z, kv = h / a.group, s0 = blockIdx.x * (i64)TILE;
  Extent e = extent_of(a.lengths, b);
  i64 last = s0 + TILE < e.count ? s0 + TILE : e.count;
  for (int r = warp * 8; r < warp * 8 + 8; r++) {
    i64 s = s0 + r;
    if (s < e.count) {
      i64 position = a.rotary.positions ? a.rotary.positions[b * a.lengths.positions + s] : e.offset + s;
      prepare(queries + r * (HEAD + 1), a.q + b * a.q_b + s * a.q_s + h * a.q_h, position, a.rotary, a.norm, (float)a.epsilon, (float)a.scale);
    } else for (int i = threadIdx.x % 32; i < HEAD; i += 32) queries[r * (HEAD + 1) + i] = 0.f;
  }
  i64 s = s0 + row, low, high, first, stop, unused;
  visible(a, e, e.offset + s, &low, &high);
  if (s >= e.count) high = low;
  visible(a, e, e.offset + s0, &first, &unused);
  visible(a, e, e.offset + last - 1, &unused, &stop);
  if (s0 >= e.count) stop = first;
  if (first < 0) first = 0;
  float m = -INFINITE, l = 0.f, acc[MINE];
#pragma unroll
  for (int i = 0; i < MINE; i++) acc[i] = 0.f;
  for (i64 j0 = first; j0 < stop; j0 += TILE) {
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * HEAD; i += 128) {
      int r = i / HEAD, d = i % HEAD; i64 j = j0 + r;
      bool there = j < stop;
      keys[r * (HEAD + 1) + d] = there ? wide(a.k[b * a.k_b + kv * a.k_h + j * a.k_s + d]) : 0.f;
      vals[r * HEAD + d] = there ? wide(a.v[b * a.v_b + kv * a.v_h + j * a.v_s + d]) : 0.f;
    }
    __syncthreads();
    float score[8], top = m;
#pragma unroll
    for (int i = 0; i < 8; i++) score[i] = 0.f;
    for (int d = 0; d < HEAD; d++) {
      float q = queries[row * (HEAD + 1) + d];
#pragma unroll
      for (int i = 0; i < 8; i++) score[i] += q * keys[(quad + 4 * i) * (HEAD + 1) + d];
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
      i64 j = j0 + quad + 4 * i;
      if (a.softcap > 0) score[i] = (float)a.softcap * tanhf(score[i] / (float)a.softcap);
      if (j < low || j >= high) score[i] = -INFINITE;
      else if (a.mask_kind) score[i] += bias_at(a, b, h, s, e.base + j);
      top = fmaxf(top, score[i]);
    }
    top = fmaxf(top, __shfl_xor_sync(WHOLE_WARP, top, 1));
    top = fmaxf(top, __shfl_xor_sync(WHOLE_WARP, top, 2));
    float keep = rescale(m, top), sum = 0.f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float weight = score[i] == -INFINITE ? 0.f : expf(score[i] - top);
      weights[row * (TILE + 1) + quad + 4 * i] = weight; sum += weight;
    }
    sum += __shfl_xor_sync(WHOLE_WARP, sum, 1);
    sum += __shfl_xor_sync(WHOLE_WARP, sum, 2);
    l = l * keep + sum; m = top;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < MINE; i++) acc[i] *= keep;
    for (int j = 0; j < TILE; j++) {
      float weight = weights[row * (TILE + 1) + j];
#pragma unroll
      for (int i = 0; i < MINE; i++) if (quad + 4 * i < HEAD) acc[i] += weight * vals[j * HEAD + quad + 4 * i];
    }
  }
  if (s >= a.lengths.positions) return;
  if (m > -INFINITE) { if (a.sink_zero) l += expf(0.f - m); else if (a.sink) l += expf(wide(a.sink[h]) - m); }
#pragma unroll
  for (int i = 0; i < MINE; i++)
    if (quad + 4 * i < HEAD)
      a.out[b * a.o_b + s * a.o_s + h * a.o_h + quad + 4 * i] = To<T>::from(m == -INFINITE ? 0.f : acc[i] / l);
}

struct Mask { i64 heads, rows, width, m_b, m_h, m_s, m_k, kind; double limit; };

// grid (batch): 1 + the last key that any row sees.
extern "C" __global__ void valid_lengths(Mask m, const void* mask, i32* lengths) { BEGIN();
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  int mine = 0;
  for (i64 i = threadIdx.x; i < m.heads * m.rows * m.width; i += blockDim.x) {
    i64 key = i % m.width, s = i / m.width % m.rows, h = i / m.width / m.rows;
    i64 at = blockIdx.x * m.m_b + h * m.m_h + s * m.m_s + key * m.m_k;
    bool seen = m.kind == 1 ? wide(((const boolean*)mask)[at]) : wide(((const T*)mask)[at]) > (float)m.limit;
    if (seen && (int)key + 1 > mine) mine = (int)key + 1;
  }
  atomicMax(&found, mine);
  __syncthreads();
  if (threadIdx.x == 0) lengths[blockIdx.x] = found;
}

struct Rotate { i64 batch, heads, positions, width, x_b, x_h, x_s, y_b, y_h, y_s, half, interleaved, table, c_b, position_kind; };

// RotaryEmbedding alone: position_kind 0: the table is gathered already, 1: [B, S], 2: one offset.
extern "C" __global__ void rotary(Rotate r, const T* x, const T* cos, const T* sin, const i64* positions, T* y) { BEGIN();
  i64 pairs = r.width / 2, total = r.batch * r.heads * r.positions * pairs;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += gridDim.x * (i64)blockDim.x) {
    i64 n = i % pairs, rest = i / pairs, h = rest % r.heads, s = rest / r.heads % r.positions, b = rest / r.heads / r.positions;
    const T* from = x + b * r.x_b + h * r.x_h + s * r.x_s;
    T* to = y + b * r.y_b + h * r.y_h + s * r.y_s;
    if (n >= r.half) {
      i64 a = 2 * r.half + 2 * (n - r.half);
      T first = from[a], second = from[a + 1];
      to[a] = first; to[a + 1] = second;
      continue;
    }
    i64 row = r.position_kind == 0 ? s : r.position_kind == 1 ? positions[b * r.positions + s] : positions[0] + s;
    i64 base = (r.position_kind == 0 ? b * r.c_b : 0) + row * r.half + n;
    bool good = r.position_kind == 0 || (row >= 0 && row < r.table);
    float c = good ? wide(cos[base]) : __int_as_float(0x7fc00000), v = good ? wide(sin[base]) : __int_as_float(0x7fc00000);
    i64 a = r.interleaved ? 2 * n : n, d = r.interleaved ? 2 * n + 1 : n + r.half;
    float p = wide(from[a]), q = wide(from[d]);
    to[a] = To<T>::from(p * c - q * v); to[d] = To<T>::from(p * v + q * c);
  }
}
#endif
