// Many query rows without the matrix units, and the kernels that move cache rows.
#ifdef PAGED
struct Append {
  const T* k; const T* v; T* keys; T* values; T* out; const T* norm; const i32* slots;
  i64 k_s, k_h, v_s, v_h, row_s, row_h, rows, out_s, out_width;
  Lengths lengths; Rotary rotary; double epsilon; Pages pages;
};

// grid (tokens, kv heads), one warp: a new key (normed, rotated) and value into the pool. A token that belongs to no
// sequence has no place there, and its output is zeros.
extern "C" __global__ void append_paged(Append a) { BEGIN();
  __shared__ float row[HEAD];
  i64 t = blockIdx.x, h = blockIdx.y;
  Extent e = EXTENT(a, t);
  if (e.count == 0) {
    for (i64 i = h * 32 + threadIdx.x; i < a.out_width; i += 32 * gridDim.y) a.out[t * a.out_s + i] = To<T>::from(0.f);
    return;
  }
  i64 to = a.slots ? (i64)a.slots[t] : place(a.pages, e.entry, e.offset);
  if (to < 0 || to >= a.rows) return;
  prepare(row, a.k + t * a.k_s + h * a.k_h, e.offset, a.rotary, a.norm, (float)a.epsilon, 1.f);
  const T* v = a.v + t * a.v_s + h * a.v_h;
  T* keys = a.keys + to * a.row_s + h * a.row_h;
  T* values = a.values + to * a.row_s + h * a.row_h;
  for (int i = threadIdx.x; i < HEAD; i += 32) { keys[i] = To<T>::from(row[i]); values[i] = v[i]; }
}
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

#endif

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
  Extent e = EXTENT(a, b);
#ifdef PAGED
  if (s0 >= e.count) return;
#endif
  i64 last = s0 + TILE < e.count ? s0 + TILE : e.count;
  for (int r = warp * 8; r < warp * 8 + 8; r++) {
    i64 s = s0 + r;
    if (s < e.count) {
      i64 position = a.rotary.positions ? a.rotary.positions[b * a.lengths.positions + s] : e.offset + s;
      prepare(queries + r * (HEAD + 1), a.q + TOKEN(e, b, s, a.q_b, a.q_s) + h * a.q_h, position, a.rotary, a.norm, (float)a.epsilon, (float)a.scale);
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
#ifdef PAGED
      j = place(a.pages, b, j); there = there && j >= 0;
#endif
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
#ifdef PAGED
      else if (place(a.pages, b, j) < 0) score[i] = -INFINITE;
#endif
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
#ifdef PAGED
  if (s >= e.count) return;
#else
  if (s >= a.lengths.positions) return;
#endif
  if (m > -INFINITE) { if (a.sink_zero) l += expf(0.f - m); else if (a.sink) l += expf(wide(a.sink[h]) - m); }
#pragma unroll
  for (int i = 0; i < MINE; i++)
    if (quad + 4 * i < HEAD)
      a.out[TOKEN(e, b, s, a.o_b, a.o_s) + h * a.o_h + quad + 4 * i] = To<T>::from(m == -INFINITE ? 0.f : acc[i] / l);
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
