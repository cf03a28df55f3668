// The matrix units' form for many queries: HEAD a multiple of 16 up to 128, no mask. A block takes 64 queries of one
// head, a warp 16 of them; keys and values come in pieces of 64 rows, two in flight. A row in shared memory is
// 16 bytes longer than a head, so that eight rows of one column of pieces use every bank. EVEN 1: rotation over whole
// halves, no interleaving, every row at a multiple of 16 bytes.
#define KEYS 64
#define QUERIES 64
#define THREADS (QUERIES / 16 * 32)
#define BLOCKS (HEAD <= 64 ? 3 : 2)
#define LINE (HEAD * 2 + 16)
#define PAIRS (HEAD / 16)
#define SHARE (PAIRS <= 1 ? 1 : PAIRS <= 2 ? 2 : PAIRS <= 4 ? 4 : 8)
#define LOG2E 1.4426950408889634f

__device__ __forceinline__ void copy16(u32 to, const void* from, bool there) {
  int size = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(size));
}
__device__ __forceinline__ void load4(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void load4_turned(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
#if HALF
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define NARROW "cvt.rn.f16x2.f32"
#else
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define NARROW "cvt.rn.bf16x2.f32"
#endif
__device__ __forceinline__ void multiply(float* acc, const u32* x, u32 b0, u32 b1) {
  asm volatile(PRODUCT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ u32 pair_of(float a, float b) { u32 r; asm(NARROW " %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r; }
__device__ __forceinline__ float power(float v) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v)); return r; }

// Eight elements of a row and the eight that turn with them, half a row on, normed and rotated. SHARE threads side by
// side have one row; `c` says which piece of it is a thread's; all threads of a warp take part.
__device__ __forceinline__ void turn(const T* row, int c, bool mine, i64 position, const Rotary& r, const T* norm,
                                     float epsilon, float* low, float* high) {
#pragma unroll
  for (int i = 0; i < 8; i++) low[i] = high[i] = 0.f;
  if (mine) { load_wide<8>(row + c * 8, low); load_wide<8>(row + HEAD / 2 + c * 8, high); }
  if (norm) {
    float squares = 0.f, w[8];
#pragma unroll
    for (int i = 0; i < 8; i++) squares += low[i] * low[i] + high[i] * high[i];
#pragma unroll
    for (int o = 1; o < SHARE; o *= 2) squares += __shfl_xor_sync(WHOLE_WARP, squares, o);
    float inverse = 1.f / sqrtf(squares / (float)HEAD + epsilon);
    if (mine) {
      load_wide<8>(norm + c * 8, w);
#pragma unroll
      for (int i = 0; i < 8; i++) low[i] *= inverse * w[i];
      load_wide<8>(norm + HEAD / 2 + c * 8, w);
#pragma unroll
      for (int i = 0; i < 8; i++) high[i] *= inverse * w[i];
    }
  }
  if (mine && r.cos && position >= 0 && position < r.table) {
    float cosine[8], sine[8];
    load_wide<8>(r.cos + position * r.half + c * 8, cosine); load_wide<8>(r.sin + position * r.half + c * 8, sine);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float x = low[i], y = high[i];
      low[i] = x * cosine[i] - y * sine[i]; high[i] = x * sine[i] + y * cosine[i];
    }
  }
}

__device__ __forceinline__ void put8(void* to, const float* from) {
  Pack<u32, 4> out;
#pragma unroll
  for (int i = 0; i < 4; i++) out.v[i] = pair_of(from[2 * i], from[2 * i + 1]);
  *(Pack<u32, 4>*)to = out;
}

struct Append {
  const T* k; const T* v; T* keys; T* values; const T* norm;
  i64 k_b, k_s, k_h, v_b, v_s, v_h, keys_b, keys_h, keys_s, values_b, values_h, values_s, rows;
  Lengths lengths; Rotary rotary; double epsilon;
};

// grid (groups of 256 / SHARE new rows, 1, batch): keys (normed, rotated) and values into their cache rows.
extern "C" __global__ __launch_bounds__(256) void append_even(Append a, i64 heads) { BEGIN();
  i64 row = (blockIdx.x * 256LL + threadIdx.x) / SHARE, s = row / heads, h = row - s * heads, b = blockIdx.z;
  int c = threadIdx.x % SHARE;
  Extent e = extent_of(a.lengths, b);
  i64 to = (a.lengths.window ? e.held : e.offset) + s;
  bool mine = c < PAIRS && s < e.count && s < a.lengths.positions && to >= 0 && to < a.rows;
  i64 position = !mine ? -1 : a.rotary.positions ? a.rotary.positions[b * a.lengths.positions + s] : e.offset + s;
  float low[8], high[8];
  turn(a.k + b * a.k_b + s * a.k_s + h * a.k_h, c, mine, position, a.rotary, a.norm, (float)a.epsilon, low, high);
  if (!mine) return;
  const T* v = a.v + b * a.v_b + s * a.v_s + h * a.v_h + c * 8;
  T* keys = a.keys + b * a.keys_b + h * a.keys_h + to * a.keys_s + c * 8;
  T* values = a.values + b * a.values_b + h * a.values_h + to * a.values_s + c * 8;
  put8(keys, low); put8(keys + HEAD / 2, high);
  *(Pack<T, 8>*)values = *(const Pack<T, 8>*)v;
  *(Pack<T, 8>*)(values + HEAD / 2) = *(const Pack<T, 8>*)(v + HEAD / 2);
}

#ifdef PAGED
// The pool's rows of 64 keys, found once for all who bring them; -1 from `stop` on and where there is no block.
__device__ __forceinline__ void find_rows(const Attend& a, i64 b, int* rows, int j0, int stop) {
  int j = j0 + threadIdx.x;
  if (threadIdx.x < KEYS) rows[threadIdx.x] = j < stop ? (int)place(a.pages, b, j) : -1;
}
#define ROWS_AT(j0) rows[(j0 - first) / KEYS % 3]
#else
#define ROWS_AT(j0) nullptr
#endif

// 64 rows of keys or values into shared memory; rows from `stop` on become 0, as do those without a block.
__device__ __forceinline__ void bring(const T* from, i64 step, u32 to, int j0, int stop, const int* rows) {
#pragma unroll
  for (int i = threadIdx.x; i < KEYS * HEAD / 8; i += THREADS) {
    int row = i / (HEAD / 8), chunk = i % (HEAD / 8);
#ifdef PAGED
    int j = rows[row];
    bool there = j >= 0;
    copy16(to + row * LINE + chunk * 16, from + (there ? j : 0) * step + chunk * 8, there);
#else
    bool there = j0 + row < stop;
    copy16(to + row * LINE + chunk * 16, from + (there ? j0 + row : 0) * step + chunk * 8, there);
#endif
  }
}

// The block's query rows, normed and rotated, into shared memory; rows behind the last one are 0.
__device__ __forceinline__ void bring_queries(const Attend& a, const Extent& e, u8* memory, i64 b, i64 h, i64 s0) {
#if EVEN
#pragma unroll 2
  for (int t = threadIdx.x; t < QUERIES * SHARE; t += THREADS) {
    int r = t / SHARE, c = t % SHARE;
    i64 s = s0 + r;
    bool mine = c < PAIRS && s < e.count;
    i64 position = !mine ? -1 : a.rotary.positions ? a.rotary.positions[b * a.lengths.positions + s] : e.offset + s;
    float low[8], high[8];
    turn(a.q + TOKEN(e, b, s, a.q_b, a.q_s) + h * a.q_h, c, mine, position, a.rotary, a.norm, (float)a.epsilon, low, high);
    if (c < PAIRS) { put8(memory + r * LINE + c * 16, low); put8(memory + r * LINE + HEAD + c * 16, high); }
  }
#else
  __shared__ float fresh[THREADS / 32][HEAD];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int r = warp * 16; r < (warp + 1) * 16; r++) {
    i64 s = s0 + r;
    if (s < e.count) {
      i64 position = a.rotary.positions ? a.rotary.positions[b * a.lengths.positions + s] : e.offset + s;
      prepare(fresh[warp], a.q + TOKEN(e, b, s, a.q_b, a.q_s) + h * a.q_h, position, a.rotary, a.norm, (float)a.epsilon, 1.f);
    }
    for (int i = lane; i < HEAD; i += 32) ((T*)(memory + r * LINE))[i] = To<T>::from(s < e.count ? fresh[warp][i] : 0.f);
    __syncwarp();
  }
#endif
}

__device__ __forceinline__ void scores_of(float (*score)[4], const u32 (*q)[4], u32 keys) {
#pragma unroll
  for (int i = 0; i < 32; i++) score[i / 4][i % 4] = 0.f;
#pragma unroll
  for (int d = 0; d < HEAD / 16; d++)
#pragma unroll
    for (int n = 0; n < 4; n++) {
      u32 r[4];
      load4(r, keys + n * 16 * LINE + d * 32);
      multiply(score[2 * n], q[d], r[0], r[1]);
      multiply(score[2 * n + 1], q[d], r[2], r[3]);
    }
}

// grid (tiles of 64 queries, heads, batch): the latest queries, which see most keys, come first.
extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void attend_flash(Attend a) {
  BEGIN();
  extern __shared__ __align__(128) u8 memory[];
  constexpr u32 PIECE = KEYS * LINE;
  u32 base = (u32)__cvta_generic_to_shared(memory), key_room = base + QUERIES * LINE, value_room = key_room + 2 * PIECE;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  i64 h = blockIdx.y, b = blockIdx.z, kv = h / a.group, s0 = (gridDim.x - 1 - blockIdx.x) * (i64)QUERIES;
  Extent e = EXTENT(a, b);
#ifdef PAGED
  if (s0 >= e.count) return;
#endif
  const T* k = a.k + b * a.k_b + kv * a.k_h;
  const T* v = a.v + b * a.v_b + kv * a.v_h;
  i64 from, until, unused, mine = s0 + warp * 16;
  visible(a, e, e.offset + s0, &from, &unused);
  visible(a, e, e.offset + (s0 + QUERIES < e.count ? s0 + QUERIES : e.count) - 1, &unused, &until);
  int first = (int)from, stop = s0 < e.count ? (int)until : first;
  // What a warp's rows see: nothing before `open` and from `shut` on, all of it from `whole` to `cut`.
  visible(a, e, e.offset + mine, &from, &until);
  int open = (int)from, cut = (int)until;
  visible(a, e, e.offset + (mine + 16 < e.count ? mine + 16 : e.count) - 1, &from, &until);
  int whole = (int)from, shut = mine < e.count ? (int)until : 0;
#ifdef PAGED
  __shared__ int rows[3][KEYS];
  find_rows(a, b, rows[0], first, stop);
  find_rows(a, b, rows[1], first + KEYS, stop);
  __syncthreads();
#endif
  bring(k, a.k_s, key_room, first, stop, ROWS_AT(first));
  bring(v, a.v_s, value_room, first, stop, ROWS_AT(first));
  asm volatile("cp.async.commit_group;");
  bring_queries(a, e, memory, b, h, s0);
  __syncthreads();
  u32 q[HEAD / 16][4];
#pragma unroll
  for (int d = 0; d < HEAD / 16; d++) load4(q[d], base + (warp * 16 + lane % 16) * LINE + (2 * d + lane / 16) * 16);
  float unit = a.softcap > 0 ? LOG2E : (float)a.scale * LOG2E;
  float out[HEAD / 8][4] = {}, m[2] = {-INFINITE, -INFINITE}, l[2] = {};
  u32 key_at = (lane / 16 * 8 + lane % 8) * LINE + lane / 8 % 2 * 16, value_at = lane % 16 * LINE + lane / 16 * 16;
  int round = 0;
  for (int j0 = first; j0 < stop; j0 += KEYS, round ^= 1) {
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    if (j0 + KEYS < stop) {
      bring(k, a.k_s, key_room + (round ^ 1) * PIECE, j0 + KEYS, stop, ROWS_AT(j0 + KEYS));
      bring(v, a.v_s, value_room + (round ^ 1) * PIECE, j0 + KEYS, stop, ROWS_AT(j0 + KEYS));
      asm volatile("cp.async.commit_group;");
#ifdef PAGED
      find_rows(a, b, ROWS_AT(j0 + 2 * KEYS), j0 + 2 * KEYS, stop);
#endif
    }
    if (j0 >= shut || j0 + KEYS <= open) continue;
    float score[8][4];
    scores_of(score, q, key_room + round * PIECE + key_at);
    if (a.softcap > 0) {
      float cap = (float)a.softcap, inner = (float)(a.scale / a.softcap);
#pragma unroll
      for (int i = 0; i < 32; i++) score[i / 4][i % 4] = cap * tanhf(score[i / 4][i % 4] * inner);
    }
    if (j0 < whole || j0 + KEYS > cut) {
#pragma unroll
      for (int r = 0; r < 2; r++) {
        i64 low, high;
        visible(a, e, e.offset + mine + lane / 4 + 8 * r, &low, &high);
        int begin = (int)low - j0 - lane % 4 * 2, end = (int)high - j0 - lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
          for (int c = 0; c < 2; c++)
            if (n * 8 + c < begin || n * 8 + c >= end) score[n][2 * r + c] = -INFINITE;
      }
    }
#ifdef PAGED
    // Keys without a block are hidden; a warp looks at all 64 places at once, and there are hardly ever such keys.
    const int* now = ROWS_AT(j0);
    if (__any_sync(WHOLE_WARP, (now[lane] | now[lane + 32]) < 0))
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int c = 0; c < 2; c++)
          if (now[n * 8 + c + lane % 4 * 2] < 0) score[n][c] = score[n][2 + c] = -INFINITE;
#endif
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float top = m[r];
#pragma unroll
      for (int n = 0; n < 8; n++) top = fmaxf(top, fmaxf(score[n][2 * r], score[n][2 * r + 1]));
      top = fmaxf(top, __shfl_xor_sync(WHOLE_WARP, top, 1));
      top = fmaxf(top, __shfl_xor_sync(WHOLE_WARP, top, 2));
      float most = top == -INFINITE ? 0.f : top * unit, keep = power(m[r] * unit - most), sum = 0.f;
      m[r] = top;
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
          float weight = power(fmaf(score[n][2 * r + c], unit, -most));
          score[n][2 * r + c] = weight; sum += weight;
        }
      l[r] = l[r] * keep + sum;
#pragma unroll
      for (int d = 0; d < HEAD / 8; d++) { out[d][2 * r] *= keep; out[d][2 * r + 1] *= keep; }
    }
    u32 values = value_room + round * PIECE + value_at;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      u32 p[4];
#pragma unroll
      for (int c = 0; c < 4; c++) p[c] = pair_of(score[2 * i + c / 2][c % 2 * 2], score[2 * i + c / 2][c % 2 * 2 + 1]);
#pragma unroll
      for (int d = 0; d < HEAD / 16; d++) {
        u32 r[4];
        load4_turned(r, values + i * 16 * LINE + d * 32);
        multiply(out[2 * d], p, r[0], r[1]);
        multiply(out[2 * d + 1], p, r[2], r[3]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float sum = l[r], most = m[r];
    sum += __shfl_xor_sync(WHOLE_WARP, sum, 1);
    sum += __shfl_xor_sync(WHOLE_WARP, sum, 2);
    i64 s = mine + lane / 4 + 8 * r;
#ifdef PAGED
    if (s >= e.count) continue;
#else
    if (s >= a.lengths.positions) continue;
#endif
    bool seen = s < e.count && most > -INFINITE;
    if (seen && a.sink_zero) sum += power(-most * unit);
    else if (seen && a.sink) sum += power(wide(a.sink[h]) * LOG2E - most * unit);
    float share = seen ? 1.f / sum : 0.f;
    T* to = a.out + TOKEN(e, b, s, a.o_b, a.o_s) + h * a.o_h + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < HEAD / 8; d++)
      *(u32*)(to + d * 8) = pair_of(seen ? out[d][2 * r] * share : 0.f, seen ? out[d][2 * r + 1] * share : 0.f);
  }
}
