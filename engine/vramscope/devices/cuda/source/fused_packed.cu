// Packed weights of 4 or 8 bits through the matrix units. A tile is 16 columns; SHARE warps share its depth, the
// block's TEAMS of warps have neighbouring tiles and go on to further ones. 16 bytes of a weight row are a chunk, all
// of one scale; one product step takes a chunk of 16 rows, a lane a word of two of them. Codes enter the product as
// OFFSET + code (or, where that saves a shift, OFFSET + HIGH · code); a chunk's share of the offset and of the zero
// point is taken off by the sum of its activations, its scale applied behind the product, both in float32.
// Codes arrive in a ring of STAGES windows a warp: 4 · QUADS chunks of each row, so that whole lines are asked for.
// Scales and zero points of a tile lie together in memory and are brought whole.
// BITS, BLOCK: codes that share a scale; ZERO 0: the middle code, 1: packed zero points, 2: zero points of T;
// TOGETHER: scales of 4 chunks of a row that lie in so many aligned bytes, or 0; XV: pieces of 8 activations and
// META: of 16 bytes of scales that one thread brings; MORE: whether a block has further tiles.
#define CODES (32 / BITS)
#define CHUNK (4 * CODES)
#define WIDE (4 * QUADS)
#define TEAMS (WARPS / SHARE)
#define SLOT (MATS * QUADS * 1024)
#define TURNS (BITS == 4 ? 2 : 1)

#ifdef IS_HALF
#define MAGIC 0x64006400u
#define OFFSET 1024.f
#define HIGH 16.f
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define MAGIC 0x43004300u
#define OFFSET 128.f
#define HIGH 1.f
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif

// word & mask | MAGIC in one instruction.
__device__ __forceinline__ u32 pick(u32 word, u32 mask) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(r) : "r"(word), "r"(mask), "n"(MAGIC));
  return r;
}

// Pairs of codes of one word as two numbers each. Of 4 bits: codes 0 and 4, 2 and 6; then 1 and 5, 3 and 7, HIGH times.
__device__ __forceinline__ void spread(u32 word, u32* pairs) {
#if BITS == 8
  asm("prmt.b32 %0, %1, %2, 0x5140;" : "=r"(pairs[0]) : "r"(word), "r"(0x64646464u));
  asm("prmt.b32 %0, %1, %2, 0x7362;" : "=r"(pairs[1]) : "r"(word), "r"(0x64646464u));
#else
  u32 later = word >> 8;
  pairs[0] = pick(word, 0x000f000fu); pairs[1] = pick(later, 0x000f000fu);
#ifdef IS_HALF
  pairs[2] = pick(word, 0x00f000f0u); pairs[3] = pick(later, 0x00f000f0u);
#else
  pairs[2] = pick(word >> 4, 0x000f000fu); pairs[3] = pick(later >> 4, 0x000f000fu);
#endif
#endif
}

// Where element k of 8 lies among them in shared memory.
__device__ __forceinline__ constexpr int slot_of(int k) { return BITS == 4 ? k % 2 * 4 + k / 2 % 2 * 2 + k / 4 : k; }

// A window lies in shared memory row by row, for what one request brings must be written to one line of 128 bytes;
// within its line a row's chunks are permuted so that the load of a chunk of 8 rows meets no bank twice.
__device__ __forceinline__ int place_of(int row, int chunk) {
  if (QUADS == 2) return row * 128 + (chunk ^ row % 8) * 16;
  return row / 2 * 128 + (row % 2 * 4 + (chunk ^ row / 2 % 4)) * 16;
}

// `chunk`: the first of the window. What is not inside is filled with 0.
__device__ __forceinline__ void ask(const Fused& f, u8* slot, int tile, int chunk) {
  int lane = threadIdx.x % 32, own = lane % WIDE;
  bool inside = (chunk + own) * CHUNK < (int)f.k;
  u32 at = (u32)(tile * 16 + lane / WIDE) * (u32)f.row_bytes + (chunk + own) * 16;
#pragma unroll
  for (int i = 0; i < 16 * WIDE / 32; i++) {
    int row = i * (32 / WIDE) + lane / WIDE;
    bool some = inside && tile * 16 + row < (int)f.n;
    u32 start = some ? at + i * (32 / WIDE) * (u32)f.row_bytes : 0;
#pragma unroll
    for (int m = 0; m < MATS; m++)
      copy16(slot + m * (QUADS * 1024) + place_of(row, own), (const u8*)f.w[m] + start, some ? 16 : 0);
  }
}

// The words of four chunks that are this lane's, of rows g or (half 1) g + 8.
__device__ __forceinline__ void words_of(const u8* window, int quad, int half, u32* words) {
  int lane = threadIdx.x % 32;
  u32 at = (u32)__cvta_generic_to_shared(window + place_of(half * 8 + lane % 8, quad * 4 + lane / 8));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at) : "memory");
}

// Scales (kind 0) and zero points (kind 1) of all rows of the block's tiles, as they lie in memory.
struct Meta { const u8* from; i64 row, total; };

__device__ __forceinline__ Meta meta_of(const Fused& f, int m, int kind) {
  i64 row = kind && ZERO == 1 ? f.zero_bytes : f.blocks * (i64)sizeof(T);
  return {(const u8*)(kind ? f.zeros[m] : (const void*)f.scales[m]), row, row * f.n};
}
__device__ __forceinline__ int meta_room(const Fused& f, int kind) {
  return (int)(meta_of(f, 0, kind).row * 16 * TEAMS);
}
#define META_OF(buffer, m, kind) (meta + ((buffer) * MATS + (m)) * meta_bytes + (kind) * meta_room(f, 0))

__device__ __forceinline__ int left(const Meta& m, i64 at) { return at >= m.total ? 0 : m.total - at < 16 ? (int)(m.total - at) : 16; }

__device__ __forceinline__ void ask_meta(const Fused& f, u8* meta, int meta_bytes, int tile) {
#pragma unroll
  for (int m = 0; m < MATS; m++)
#pragma unroll
    for (int kind = 0; kind < (ZERO ? 2 : 1); kind++) {
      Meta from = meta_of(f, m, kind);
      for (int i = threadIdx.x * 16; i < meta_room(f, kind); i += 32 * WARPS * 16) {
        i64 at = tile * 16 * from.row + i;
        int bytes = left(from, at);
        copy16(META_OF(0, m, kind) + i, from.from + (bytes ? at : 0), bytes);
      }
    }
}

// The same for a further tile by way of registers: asked for early, kept late.
struct Later { Pack<u32, 4> v[MATS][ZERO ? 2 : 1][META]; };

__device__ __forceinline__ void bring_meta(const Fused& f, Later* later, int tile) {
#pragma unroll
  for (int m = 0; m < MATS; m++)
#pragma unroll
    for (int kind = 0; kind < (ZERO ? 2 : 1); kind++) {
      Meta from = meta_of(f, m, kind);
#pragma unroll
      for (int n = 0; n < META; n++) {
        int i = (threadIdx.x + n * 32 * WARPS) * 16;
        i64 at = tile * 16 * from.row + i;
        later->v[m][kind][n] = Pack<u32, 4>{};
        if (i >= meta_room(f, kind)) continue;
        int bytes = left(from, at);
        if (bytes == 16) later->v[m][kind][n] = *(const Pack<u32, 4>*)(from.from + at);
        else
#pragma unroll
          for (int w = 0; w < 4; w++) if (bytes > 4 * w) later->v[m][kind][n].v[w] = *(const u32*)(from.from + at + 4 * w);
      }
    }
}

__device__ __forceinline__ void keep_meta(const Fused& f, const Later& later, u8* meta, int meta_bytes, int buffer) {
#pragma unroll
  for (int m = 0; m < MATS; m++)
#pragma unroll
    for (int kind = 0; kind < (ZERO ? 2 : 1); kind++)
#pragma unroll
      for (int n = 0; n < META; n++) {
        int i = (threadIdx.x + n * 32 * WARPS) * 16;
        if (i < meta_room(f, kind)) *(Pack<u32, 4>*)(META_OF(buffer, m, kind) + i) = later.v[m][kind][n];
      }
}

// Scales and zero points of four chunks of rows g and g + 8 of a team's tile.
struct Scales { float scale[2][4], zero[2][4]; };

__device__ __forceinline__ void four(const T* from, bool inside, float* out) {
  if (!inside) { out[0] = out[1] = out[2] = out[3] = 0.f; return; }
#if TOGETHER == 8
  load_wide<4>(from, out);
#elif TOGETHER == 4
  float two[2];
  load_wide<2>(from, two);
  out[0] = out[1] = two[0]; out[2] = out[3] = two[1];
#endif
}

__device__ __forceinline__ Scales scales_of(const Fused& f, const u8* scales, const u8* zeros, int row, int chunk) {
  Scales s;
  int blocks = (int)f.blocks, first = chunk * CHUNK / BLOCK;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    int at = (row + 8 * half) * blocks;
#if TOGETHER
    four((const T*)scales + at + first, first < blocks, s.scale[half]);
    if (ZERO == 2) four((const T*)zeros + at + first, first < blocks, s.zero[half]);
#endif
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int block = min((chunk + j) * CHUNK / BLOCK, blocks - 1);
      if (!TOGETHER) s.scale[half][j] = wide(((const T*)scales)[at + block]);
      if (!TOGETHER && ZERO == 2) s.zero[half][j] = wide(((const T*)zeros)[at + block]);
      if (ZERO == 1) {
        u32 byte = zeros[(row + 8 * half) * (int)f.zero_bytes + block * BITS / 8];
        s.zero[half][j] = (float)(byte >> block * BITS % 8 & ((1u << BITS) - 1u));
      }
    }
  }
  return s;
}

__device__ __forceinline__ void multiply(float* out, const u32* low, const u32* high, const u32* x) {
  asm(PRODUCT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=f"(out[0]), "=f"(out[1]), "=f"(out[2]), "=f"(out[3])
      : "r"(low[0]), "r"(high[0]), "r"(low[1]), "r"(high[1]), "r"(x[0]), "r"(x[1]), "f"(0.f));
}

// What a chunk's activations take off: `offset` for OFFSET (and the middle code), `zero` times a zero point more.
struct Sums { float offset, zero; };

// One chunk of 16 rows times the activations: a word of rows g and g + 8 each; columns 2 t and 2 t + 1 of the result.
__device__ __forceinline__ void step(float* acc, u32 low_word, u32 high_word, const Scales& s, int j, const u32* x, const Sums* sums) {
  u32 low[4], high[4];
  float part[4], later[4];
  spread(low_word, low); spread(high_word, high);
  multiply(part, low, high, x);
  if (TURNS == 2) multiply(later, low + 2, high + 2, x + 2);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (i % 2 && ROWS == 1) continue;
    float v = part[i] + sums[i % 2].offset;
    if (ZERO) v += s.zero[i / 2][j] * sums[i % 2].zero;
    if (TURNS == 2) v += later[i] * (1.f / HIGH);
    acc[i] += s.scale[i / 2][j] * v;
  }
}

// A thread's pieces of one activation row, with what is added to it; returns the sum of their squares.
__device__ __forceinline__ float bring(const Fused& f, int r, float (*v)[8]) {
  float more[XV][8] = {}, squares = 0.f;
#pragma unroll
  for (int i = 0; i < XV; i++) {
    int at = (threadIdx.x + i * 32 * WARPS) * 8;
#pragma unroll
    for (int j = 0; j < 8; j++) v[i][j] = 0.f;
    if (at < (int)f.k) {
      load_wide<8>(f.x + r * f.x_row + at, v[i]);
#if SKIP
      load_wide<8>(f.skip + r * f.skip_row + at, more[i]);
#endif
    }
  }
#pragma unroll
  for (int i = 0; i < XV; i++)
#pragma unroll
    for (int j = 0; j < 8; j++) { v[i][j] += more[i][j]; squares += v[i][j] * v[i][j]; }
  return squares;
}

// Those pieces into shared memory, in the order of the codes, with the sums of each chunk.
__device__ __forceinline__ void place(float (*v)[8], const Pack<T, 8>* gamma, float inverse, T* x, Sums* sums, int padded) {
#pragma unroll
  for (int i = 0; i < XV; i++) {
    int at = (threadIdx.x + i * 32 * WARPS) * 8;
    Pack<T, 8> out;
    float turn[2] = {};
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float factor = NORM ? wide(gamma[i].v[j]) * inverse : 1.f;
      T rounded = To<T>::from(v[i][j] * factor);
      out.v[slot_of(j)] = rounded;
      turn[TURNS == 2 ? j % 2 : 0] += wide(rounded);
    }
#pragma unroll
    for (int o = 1; o < CHUNK / 8; o *= 2)
#pragma unroll
      for (int n = 0; n < TURNS; n++) turn[n] += __shfl_xor_sync(WHOLE_WARP, turn[n], o);
    if (at < padded) {
      *(Pack<T, 8>*)(x + at) = out;
      float middle = ZERO ? 0.f : (float)(1 << (BITS - 1));
      Sums own = {-(OFFSET + middle) * turn[0] - (OFFSET / HIGH + middle) * turn[1], -turn[0] - turn[1]};
      if (at % CHUNK == 0) sums[at / CHUNK] = own;
    }
  }
}

// The activation into shared memory: x + skip, normed.
__device__ __forceinline__ void stage(const Fused& f, T* x, Sums* sums, int padded) {
  float v[NORM ? ROWS : 1][XV][8];
  Pack<T, 8> gamma[XV] = {};
#if NORM
  __shared__ float squares_room[ROWS][WARPS];
#pragma unroll
  for (int i = 0; i < XV; i++) {
    int at = (threadIdx.x + i * 32 * WARPS) * 8;
    if (at < (int)f.k) gamma[i] = *(const Pack<T, 8>*)(f.gamma + at);
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float squares = warp_sum(bring(f, r, v[r]));
    if (threadIdx.x % 32 == 0) squares_room[r][threadIdx.x / 32] = squares;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float squares = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) squares += squares_room[r][w];
    place(v[r], gamma, inverse_of(f, squares), x + r * padded, sums + r * (padded / CHUNK), padded);
  }
#else
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    bring(f, r, v[0]);
    place(v[0], gamma, 1.f, x + r * padded, sums + r * (padded / CHUNK), padded);
  }
#endif
}

extern "C" __global__ __launch_bounds__(32 * WARPS, 2) void packed(Fused f) {
  extern __shared__ __align__(16) u8 raw[];
  __shared__ float parts[2][MATS][WARPS][ROWS][16];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4, team = warp / SHARE;
  int tiles = ((int)f.n + 15) / 16, steps = (((int)f.k + WIDE * CHUNK - 1) / (WIDE * CHUNK) + SHARE - 1) / SHARE;
  int padded = steps * SHARE * WIDE * CHUNK, stride = gridDim.x * TEAMS, first = blockIdx.x * TEAMS;
  int origin = warp % SHARE * WIDE, last = steps * SHARE * WIDE;
  u8* ring = raw + warp * STAGES * SLOT;
  u8* meta = raw + WARPS * STAGES * SLOT;
  int meta_bytes = meta_room(f, 0) + (ZERO ? meta_room(f, 1) : 0);
  T* x = (T*)(meta + (MORE ? 2 : 1) * MATS * meta_bytes);
  Sums* sums = (Sums*)(x + ROWS * padded);
  int next_tile = first, next = origin;
  RELEASE();
  ask_meta(f, meta, meta_bytes, first);
#pragma unroll
  for (int u = 0; u < STAGES; u++) {
    ask(f, ring + u * SLOT, next_tile + team, next);
    COMMIT();
    next += SHARE * WIDE;
    if (next >= last) { next = origin; next_tile += stride; }
  }
  warm_norm(f, 0, f.k);
  warm_bias(f, first * 16LL);
  WAIT();
  Tail tail;
  int own_row = threadIdx.x / (16 * TEAMS), own = threadIdx.x % (16 * TEAMS), slot = 0, buffer = 0;
  if (own_row < ROWS) tail = tail_of(f, own_row, first * 16LL + own);
  stage(f, x, sums, padded);
  ARRIVED(STAGES - 1);
  __syncthreads();
  // Columns of the product beyond ROWS repeat others: nobody reads them.
  const T* own_x = x + (g % ROWS) * padded + t * CODES;
  const Sums* own_sums[2] = {sums + 2 * t % ROWS * (padded / CHUNK), sums + (2 * t + 1) % ROWS * (padded / CHUNK)};
  for (int tile = first; tile < tiles; tile += stride) {
    if (tile != first && own_row < ROWS) tail = tail_of(f, own_row, tile * 16LL + own);
#if MORE
    Later later;
    if (tile + stride < tiles) bring_meta(f, &later, tile + stride);
#endif
    float acc[MATS][4] = {};
    for (int window = origin; window < last; window += SHARE * WIDE) {
      ARRIVED(STAGES - 1);
      __syncwarp();
      u8* now = ring + slot * SLOT;
#pragma unroll
      for (int quad = 0; quad < QUADS; quad++) {
        int chunk = window + 4 * quad;
        u32 low[MATS][4], high[MATS][4];
        Scales scales[MATS];
#pragma unroll
        for (int m = 0; m < MATS; m++) {
          const u8* from = now + m * (QUADS * 1024);
          words_of(from, quad, 0, low[m]); words_of(from, quad, 1, high[m]);
          scales[m] = scales_of(f, META_OF(buffer, m, 0), META_OF(buffer, m, 1), team * 16 + g, chunk);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
          Pack<u32, CODES / 2> words = *(const Pack<u32, CODES / 2>*)(own_x + (chunk + j) * CHUNK);
          Sums of[2] = {own_sums[0][chunk + j], {}};
          if (ROWS > 1) of[1] = own_sums[1][chunk + j];
#pragma unroll
          for (int m = 0; m < MATS; m++) step(acc[m], low[m][j], high[m][j], scales[m], j, words.v, of);
        }
      }
      __syncwarp();
      ask(f, now, next_tile + team, next);
      COMMIT();
      next += SHARE * WIDE;
      if (next >= last) { next = origin; next_tile += stride; }
      slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
#pragma unroll
    for (int m = 0; m < MATS; m++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (2 * t + i % 2 < ROWS) parts[buffer][m][warp][2 * t + i % 2][g + 8 * (i / 2)] = acc[m][i];
#if MORE
    if (tile + stride < tiles) keep_meta(f, later, meta, meta_bytes, buffer ^ 1);
#endif
    __syncthreads();
    if (own_row < ROWS) {
      float total[MATS] = {};
#pragma unroll
      for (int m = 0; m < MATS; m++)
#pragma unroll
        for (int w = 0; w < SHARE; w++) total[m] += parts[buffer][m][own / 16 * SHARE + w][own_row][own % 16];
      i64 column = tile * 16LL + own;
      if (column < f.n) finish(f, tail, own_row, column, total[0], total[MATS - 1]);
    }
    buffer ^= 1;
  }
  ARRIVED(0);
}
