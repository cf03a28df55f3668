// What the attention kernels share. T: element type; HEAD: head size;
// VEC: elements of one load; SIDE: threads side by side along a key (a power of two); ROWS: query heads of a block.
#define PARTS ((HEAD + VEC * SIDE - 1) / (VEC * SIDE))

// Where one batch entry stands. kind 0: fixed; 1: seqlens_k + 1 (i32); 2: valid rows (i64); 3: valid rows (i32).
// PAGED, the tokens of all sequences one after the other: `values` are past lengths, `counts` where each sequence
// begins. kind 4: of sequence b; 5: of token b alone.
struct Lengths { i64 kind; const void* values; const i32* counts; i64 positions, keys, offset, fresh, capacity, window; };
struct Extent {
  i64 total, count, offset, held, base;
#ifdef PAGED
  i64 entry, start;
#endif
};

__device__ __forceinline__ i64 kept_rows(i64 total, i64 capacity, i64 window) {
  if (total <= capacity) return total;
  i64 granule = capacity - window + 1;
  return total - granule * ((total - capacity + granule - 1) / granule);
}

#ifdef PAGED
// A pool of `blocks` blocks and, for each sequence, the blocks that it has, in order.
struct Pages { const i32* table; i64 width, block, blocks, batch; };

// The pool's row of position j of a sequence; -1 where that has no block.
__device__ __forceinline__ i64 place(const Pages& p, i64 entry, i64 j) {
  u32 size = (u32)p.block, turn = (u32)j / size;
  i64 n = turn < (u32)p.width ? (i64)p.table[entry * p.width + turn] : -1;
  return n < 0 || n >= p.blocks ? -1 : n * p.block + ((u32)j - turn * size);
}

// Lengths that do not fit the buffers leave a sequence without tokens.
__device__ __forceinline__ Extent extent_of(const Lengths& l, const Pages& p, i64 b) {
  const i32 *past = (const i32*)l.values, *starts = l.counts;
  Extent e = {0, 0, 0, 0, 0, b, 0};
  if (l.kind == 5) {
    i64 low = 0, high = p.batch;
    if (b >= starts[high]) return e;
    while (high - low > 1) { i64 middle = (low + high) / 2; if (starts[middle] <= b) low = middle; else high = middle; }
    e.entry = low;
  }
  i64 before = past[e.entry], begin = starts[e.entry], n = starts[e.entry + 1] - begin;
  if (before < 0 || begin < 0 || n < 0 || begin + n > l.positions || before + n > l.keys) return e;
  e.total = before + n; e.start = begin; e.count = n; e.offset = before;
  if (l.kind == 5) { e.count = 1; e.offset += b - begin; e.start = b; }
  e.held = e.offset;
  return e;
}
#define EXTENT(a, b) extent_of((a).lengths, (a).pages, b)
#define TOKEN(e, b, s, by_entry, by_token) (((e).start + (s)) * (by_token))
#else
#define EXTENT(a, b) extent_of((a).lengths, b)
#define TOKEN(e, b, s, by_entry, by_token) ((b) * (by_entry) + (s) * (by_token))
#endif

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
  constexpr int TURNS = (HEAD / 2 + 31) / 32;
  int lane = threadIdx.x % 32;
  bool turned = r.cos && position >= 0 && position < r.table;
  float squares = 0.f, cosine[TURNS > 0 ? TURNS : 1], sine[TURNS > 0 ? TURNS : 1];
#pragma unroll
  for (int n = 0; n < TURNS; n++)
    if (turned && lane + 32 * n < r.half) {
      cosine[n] = wide(r.cos[position * r.half + lane + 32 * n]); sine[n] = wide(r.sin[position * r.half + lane + 32 * n]);
    }
  for (int i = lane; i < HEAD; i += 32) { float v = wide(from[i]); row[i] = v; squares += v * v; }
  if (norm) {
    float inverse = 1.f / sqrtf(warp_sum(squares) / (float)HEAD + epsilon);
    for (int i = lane; i < HEAD; i += 32) row[i] = row[i] * inverse * wide(norm[i]);
  }
  __syncwarp();
  if (turned) {
#pragma unroll
    for (int n = 0; n < TURNS; n++) {
      int i = lane + 32 * n;
      if (i >= r.half) continue;
      int a = r.interleaved ? 2 * i : i, b = r.interleaved ? 2 * i + 1 : i + (int)r.half;
      float x = row[a], y = row[b];
      row[a] = x * cosine[n] - y * sine[n]; row[b] = x * sine[n] + y * cosine[n];
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
#ifdef PAGED
  Pages pages;
#endif
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

