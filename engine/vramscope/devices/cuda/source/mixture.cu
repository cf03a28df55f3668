// Mixtures of experts: tokens routed and grouped on the card, experts applied from their stored weights.
// T: activations, dense weights and biases; S: scales; R: router; KIND of the weights: 0 dense, 1 integers of BITS
// with scales, 2 the block FORMAT; VEC: weights a lane takes at once; TILE: tokens that share one reading of a weight.
struct Weight { const u8* data; const S* scale; const u8* zero; i64 rows, depth, row, block, blocks, zero_row, zero_flat; };

__device__ __forceinline__ float half_at(const u8* p) { f16 h; h.bits = (u16)(p[0] | p[1] << 8); return wide(h); }

#if KIND == 2
__device__ __constant__ const float FP4[8] = {0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f};
__device__ __constant__ const i8 IQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Element i of a block.
__device__ __forceinline__ float decoded(const u8* p, int i) {
#if FORMAT == 0
  int code = i < 16 ? p[1 + i] & 15 : p[1 + i - 16] >> 4, e = p[0];
  float scale = e == 255 ? __int_as_float(0x7fc00000) : __uint_as_float(e ? (u32)e << 23 : 0x00400000u);
  float v = code & 7 ? FP4[code & 7] * scale : 0.f;
  return code & 8 ? -v : v;
#elif FORMAT == 1
  return half_at(p) * (float)(i8)p[2 + i];
#elif FORMAT == 2
  return half_at(p) * (float)IQ4[i < 16 ? p[2 + i] & 15 : p[2 + i - 16] >> 4];
#elif FORMAT == 3
  int b = i / 32, l = i % 32, high = p[2] | p[3] << 8, low = p[4 + b / 2] >> (b % 2 * 4) & 15;
  const u8* q = p + 8 + 16 * b;
  return half_at(p) * (float)((low | (high >> 2 * b & 3) << 4) - 32) * (float)IQ4[l < 16 ? q[l] & 15 : q[l - 16] >> 4];
#elif FORMAT == 4
  int h = i / 128, j = i % 128 / 32, l = i % 32, s = p[8 * h + 2 * j + l / 16];
  return half_at(p + 80) * (float)(s & 15) * (float)(p[16 + 32 * h + l] >> 2 * j & 3) - half_at(p + 82) * (float)(s >> 4);
#elif FORMAT == 5
  int h = i / 128, j = i % 128 / 32, l = i % 32, n = 8 * h + 2 * j + l / 16;
  const u8* sc = p + 96;
  int scale = (n < 8 ? sc[n] & 15 : sc[n - 8] >> 4) | (sc[8 + n % 4] >> 2 * (n / 4) & 3) << 4;
  int q = (p[32 + 32 * h + l] >> 2 * j & 3) - ((p[l] >> (4 * h + j) & 1) ? 0 : 4);
  return half_at(p + 108) * (float)(scale - 32) * (float)q;
#elif FORMAT == 6
  int g = i / 32, l = i % 32;
  const u8* s = p + 4;
  int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4, least = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
  int q = (p[48 + 32 * (g / 2) + l] >> (g % 2 * 4) & 15) + 16 * (p[16 + l] >> g & 1);
  return half_at(p) * (float)scale * (float)q - half_at(p + 2) * (float)least;
#else
  int h = i / 128, g = i % 128 / 32, l = i % 32;
  int q = (p[64 * h + l + 32 * (g % 2)] >> (g < 2 ? 0 : 4) & 15) + 16 * (p[128 + 32 * h + l] >> 2 * g & 3) - 32;
  return half_at(p + 208) * (float)(i8)p[192 + 8 * h + 2 * g + l / 16] * (float)q;
#endif
}
#endif

// VEC weights of one row from element k on.
__device__ __forceinline__ void weights(const Weight& w, i64 row, i64 k, float* out) {
#if KIND == 0
  load_wide<VEC>((const T*)w.data + row * w.depth + k, out);
#elif KIND == 1
  constexpr int PER = 8 / BITS, MASK = (1 << BITS) - 1;
  float scale = wide(w.scale[row * w.blocks + k / w.block]), zero = (float)(1 << (BITS - 1));
  if (w.zero) {
    i64 block = k / w.block, at = w.zero_flat ? row % w.rows : block;
    const u8* z = w.zero + (w.zero_flat ? row / w.rows * w.zero_flat : row * w.zero_row);
    zero = (float)(z[at / PER] >> at % PER * BITS & MASK);
  }
  const u8* p = w.data + row * w.row + k / PER;
  u32 codes = 0;
  if (VEC > 1) codes = *(const u32*)p; else codes = *p >> k % PER * BITS;
#pragma unroll
  for (int i = 0; i < VEC; i++) out[i] = ((float)(codes >> i * BITS & MASK) - zero) * scale;
#else
  const u8* p = w.data + row * w.row + k / w.block * (w.row / w.blocks);
#pragma unroll
  for (int i = 0; i < VEC; i++) out[i] = decoded(p, (int)(k % w.block) + i);
#endif
}

// Adds to acc[t] the product of a weight row with each of `count` rows of x.
template <class X> __device__ __forceinline__ void dots(const Weight& w, i64 row, const X* const* x, int count, float* acc) {
  for (i64 k = threadIdx.x % 32 * VEC; k < w.depth; k += 32 * VEC) {
    float part[VEC];
    weights(w, row, k, part);
#pragma unroll
    for (int t = 0; t < TILE; t++) {
      if (t >= count) break;
#pragma unroll
      for (int i = 0; i < VEC; i++) if (VEC == 1 || k + i < w.depth) acc[t] += part[i] * wide(x[t][k + i]);
    }
  }
#pragma unroll
  for (int t = 0; t < TILE; t++) acc[t] = warp_sum(acc[t]);
}

struct Mixture { i64 rows, experts, k, hidden, inner, fusion, gated, activation, grouped, normalise; double alpha, beta, limit; };

// Total order of floats: −NaN lowest, +NaN highest, −0 below +0; of equal ones the lower expert first.
__device__ __forceinline__ u64 router_rank(float v, u32 expert) {
  u32 bits = __float_as_uint(v);
  return (u64)(bits & 0x80000000u ? ~bits : bits | 0x80000000u) << 32 | (0xffffffffu - expert);
}

// A warp a token: its k experts in ascending order, and their shares.
extern "C" __global__ __launch_bounds__(32) void route(Mixture m, const R* logits, const R* given, i32* chosen, float* share) { BEGIN();
  const R* row = logits + blockIdx.x * m.experts;
  i32* mine = chosen + blockIdx.x * m.k;
  float* part = share + blockIdx.x * m.k;
  float most = -INFINITE, total = 0.f, picked = 0.f;
  for (i64 e = threadIdx.x; e < m.experts; e += 32) { float v = wide(row[e]); most = v != v || v > most ? v : most; }
#pragma unroll
  for (int o = 16; o; o >>= 1) { float v = __shfl_xor_sync(WHOLE_WARP, most, o); most = v != v || v > most ? v : most; }
  for (i64 e = threadIdx.x; e < m.experts; e += 32) total += expf(wide(row[e]) - most);
  total = warp_sum(total);
  u64 last = ~0ull;
  for (i64 n = 0; n < m.k; n++) {
    u64 best = 0;
    for (i64 e = threadIdx.x; e < m.experts; e += 32) { u64 r = router_rank(wide(row[e]), (u32)e); if (r < last && r > best) best = r; }
#pragma unroll
    for (int o = 16; o; o >>= 1) { u64 r = __shfl_xor_sync(WHOLE_WARP, best, o); best = r > best ? r : best; }
    last = best;
    u32 expert = 0xffffffffu - (u32)best;
    float v = given ? wide(given[blockIdx.x * m.experts + expert]) : expf(wide(row[expert]) - most);
    picked += v;
    if (threadIdx.x == 0) {
      i64 at = n;
      for (; at > 0 && mine[at - 1] > (i32)expert; at--) { mine[at] = mine[at - 1]; part[at] = part[at - 1]; }
      mine[at] = (i32)expert; part[at] = v;
    }
  }
  float whole = given ? (m.normalise ? picked : 1.f) : m.normalise ? picked : total;
  if (threadIdx.x == 0) for (i64 n = 0; n < m.k; n++) part[n] = given && m.normalise && whole == 0.f ? 0.f : part[n] / whole;
}

// One block: the slots (token and place) of every expert, one after the other.
extern "C" __global__ __launch_bounds__(1024) void group(Mixture m, const i32* chosen, i32* start, i32* order) { BEGIN();
  extern __shared__ i32 next[];
  i64 slots = m.rows * m.k;
  for (i64 e = threadIdx.x; e < m.experts; e += blockDim.x) next[e] = 0;
  __syncthreads();
  for (i64 n = threadIdx.x; n < slots; n += blockDim.x) atomicAdd(&next[chosen[n]], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    i32 at = 0;
    for (i64 e = 0; e < m.experts; e++) { i32 count = next[e]; start[e] = next[e] = at; at += count; }
    start[m.experts] = at;
  }
  __syncthreads();
  for (i64 n = threadIdx.x; n < slots; n += blockDim.x) order[atomicAdd(&next[chosen[n]], 1)] = (i32)n;
}

__device__ __forceinline__ float activated(const Mixture& m, float gate, float linear) {
  if (m.gated) {
    float limit = (float)m.limit, g = fminf(gate, limit), l = fminf(fmaxf(linear, -limit), limit);
    return g / (1.f + expf(-(float)m.alpha * g)) * (l + (float)m.beta);
  }
  if (m.activation == 0) return fmaxf(gate, 0.f);
  if (m.activation == 1) return 0.5f * gate * (1.f + tanhf(0.79788456f * (gate + 0.044715f * gate * gate * gate)));
  if (m.activation == 2) return gate / (1.f + expf(-gate));
  return gate;
}

// The slots of this block: one of them, or all of its expert's.
struct Slots { i64 expert, begin, end; };
__device__ __forceinline__ Slots slots_of(const Mixture& m, const i32* chosen, const i32* start) {
  i64 y = blockIdx.y;
  if (m.grouped) return {y, start[y], start[y + 1]};
  return {chosen[y], y, y + 1};
}

// hidden[slot] = gate(fc1(x), fc3(x)); a warp an element.
extern "C" __global__ __launch_bounds__(256) void first(Mixture m, Weight w, Weight v, const T* x, const T* bias, const T* bias3,
                                                       const i32* chosen, const i32* start, const i32* order, float* hidden) { BEGIN();
  i64 i = blockIdx.x * 8LL + threadIdx.x / 32;
  Slots s = slots_of(m, chosen, start);
  if (i >= m.inner) return;
  i64 row = s.expert * w.rows + (m.fusion == 1 ? 2 * i : i), other = m.fusion == 1 ? row + 1 : m.fusion == 2 ? row + m.inner : s.expert * v.rows + i;
  for (i64 base = s.begin; base < s.end; base += TILE) {
    int count = s.end - base < TILE ? (int)(s.end - base) : TILE;
    const T* rows[TILE]; i64 slot[TILE];
    float gate[TILE] = {}, linear[TILE] = {};
#pragma unroll
    for (int t = 0; t < TILE; t++) { slot[t] = t < count ? (m.grouped ? order[base + t] : base + t) : 0; rows[t] = x + slot[t] / m.k * m.hidden; }
    dots(w, row, rows, count, gate);
    if (m.gated) dots(m.fusion ? w : v, other, rows, count, linear);
    if (threadIdx.x % 32) continue;
    float b = bias ? wide(bias[row]) : 0.f, c = !m.gated ? 0.f : m.fusion ? (bias ? wide(bias[other]) : 0.f) : bias3 ? wide(bias3[other]) : 0.f;
#pragma unroll
    for (int t = 0; t < TILE; t++) if (t < count) hidden[slot[t] * m.inner + i] = activated(m, gate[t] + b, linear[t] + c);
  }
}

// part[slot] = share[slot] · (fc2(hidden[slot]) + bias).
extern "C" __global__ __launch_bounds__(256) void second(Mixture m, Weight w, const float* hidden, const T* bias, const i32* chosen,
                                                        const i32* start, const i32* order, const float* share, float* part) { BEGIN();
  i64 i = blockIdx.x * 8LL + threadIdx.x / 32;
  Slots s = slots_of(m, chosen, start);
  if (i >= m.hidden) return;
  i64 row = s.expert * w.rows + i;
  for (i64 base = s.begin; base < s.end; base += TILE) {
    int count = s.end - base < TILE ? (int)(s.end - base) : TILE;
    const float* rows[TILE]; i64 slot[TILE];
    float acc[TILE] = {};
#pragma unroll
    for (int t = 0; t < TILE; t++) { slot[t] = t < count ? (m.grouped ? order[base + t] : base + t) : 0; rows[t] = hidden + slot[t] * m.inner; }
    dots(w, row, rows, count, acc);
    if (threadIdx.x % 32) continue;
    float b = bias ? wide(bias[row]) : 0.f;
#pragma unroll
    for (int t = 0; t < TILE; t++) if (t < count) part[slot[t] * m.hidden + i] = share[slot[t]] * (acc[t] + b);
  }
}

// y[token] = the sum of its parts, in ascending order of the experts.
extern "C" __global__ void combine(Mixture m, const float* part, T* y) { BEGIN();
  i64 total = m.rows * m.hidden;
  for (i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x; n < total; n += gridDim.x * (i64)blockDim.x) {
    i64 token = n / m.hidden, i = n % m.hidden;
    float sum = 0.f;
    for (i64 j = 0; j < m.k; j++) sum += part[(token * m.k + j) * m.hidden + i];
    y[n] = To<T>::from(sum);
  }
}

// y = x · Wᵀ + bias, a warp a column and TILE rows.
extern "C" __global__ __launch_bounds__(256) void project(Weight w, i64 rows, const T* x, const T* bias, T* y) { BEGIN();
  i64 column = blockIdx.x * 8LL + threadIdx.x / 32;
  if (column >= w.rows) return;
  for (i64 base = blockIdx.y * (i64)TILE; base < rows; base += gridDim.y * (i64)TILE) {
    int count = rows - base < TILE ? (int)(rows - base) : TILE;
    const T* from[TILE];
    float acc[TILE] = {};
#pragma unroll
    for (int t = 0; t < TILE; t++) from[t] = x + (base + (t < count ? t : 0)) * w.depth;
    dots(w, column, from, count, acc);
    if (threadIdx.x % 32) continue;
    float b = bias ? wide(bias[column]) : 0.f;
#pragma unroll
    for (int t = 0; t < TILE; t++) if (t < count) y[(base + t) * w.rows + column] = To<T>::from(acc[t] + b);
  }
}
