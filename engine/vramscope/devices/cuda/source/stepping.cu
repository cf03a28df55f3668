// What a decode step does around the program: feeds moved on by one token, the next token chosen.
struct Feed { void* to; const i64* from; i64 offset, step, kind, type; };
struct Feeds { i64 batch; Feed feed[8]; };

__device__ __forceinline__ void put(void* to, i64 at, i64 value, i64 type) {
  if (type == 0) ((i64*)to)[at] = value;
  else if (type == 1) ((i32*)to)[at] = (i32)value;
  else if (type == 2) ((u8*)to)[at] = (u8)value;
  else ((float*)to)[at] = (float)value;
}

// A block a feed, a thread a sequence. kind 0: to[b] = from[b] + offset; 1: to[b][from[b]] = 1; 2: to[b] = offset.
extern "C" __global__ void advance(Feeds f) { BEGIN();
  Feed feed = f.feed[blockIdx.x];
  for (i64 b = threadIdx.x; b < f.batch; b += blockDim.x) {
    if (feed.kind == 0) put(feed.to, b * feed.step, feed.from[b] + feed.offset, feed.type);
    else if (feed.kind == 1) put(feed.to, b * feed.step + feed.from[b], 1, feed.type);
    else put(feed.to, b * feed.step, feed.offset, feed.type);
  }
}

// Larger numbers get larger keys, NaN the largest; of equal ones the first index wins.
__device__ __forceinline__ u64 rank_of(float v, u32 index) {
  u32 bits = __float_as_uint(v == 0.f ? 0.f : v);
  u32 key = v != v ? 0xffffffffu : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (u64)key << 32 | (0xffffffffu - index);
}

// One block's part of a row that `parts` blocks of a cluster share.
template <class T> struct Share { const T* from; i64 start, width; };

template <class T> __device__ __forceinline__ Share<T> share_of(const T* logits, i64 row, i64 all, i64 parts) {
  i64 share = (all + parts - 1) / parts / 64 * 64 + 64, start = blockIdx.x % parts * share;
  return {logits + blockIdx.x / parts * row + start, start, all - start < share ? all - start : share};
}

#define TOGETHER(parts) do { if ((parts) > 1) CLUSTER_SYNC(); else __syncthreads(); } while (0)

// The highest rank of the row; thread 0 of every block gets it. Nobody may leave before a further TOGETHER.
template <class T> __device__ u64 best_of(const Share<T>& s, i64 parts) {
  __shared__ u64 room[32], best_here;
  u64 best = 0;
  constexpr int N = 16 / sizeof(T);
  i64 whole = ((u64)s.from % 16 == 0 && s.width > 0) ? s.width / N * N : 0;
#pragma unroll 4
  for (i64 i = threadIdx.x * N; i < whole; i += blockDim.x * N) {
    float v[N];
    load_wide<N>(s.from + i, v);
#pragma unroll
    for (int k = 0; k < N; k++) { u64 r = rank_of(v[k], (u32)(s.start + i + k)); best = r > best ? r : best; }
  }
  for (i64 i = whole + threadIdx.x; i < s.width; i += blockDim.x) { u64 r = rank_of(wide(s.from[i]), (u32)(s.start + i)); best = r > best ? r : best; }
#pragma unroll
  for (int o = 16; o; o >>= 1) { u64 r = __shfl_xor_sync(WHOLE_WARP, best, o); best = r > best ? r : best; }
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x < 32) {
    best = threadIdx.x < blockDim.x / 32 ? room[threadIdx.x] : 0;
#pragma unroll
    for (int o = 16; o; o >>= 1) { u64 r = __shfl_xor_sync(WHOLE_WARP, best, o); best = r > best ? r : best; }
    if (threadIdx.x == 0) best_here = best;
  }
  TOGETHER(parts);
  if (threadIdx.x == 0) {
    best = best_here;
    for (int part = 0; parts > 1 && part < parts; part++) {
      const u32* words = (const u32*)&best_here;
      u64 r = (u64)remote_bits(words + 1, part) << 32 | remote_bits(words, part);
      best = r > best ? r : best;
    }
  }
  return best;
}

template <class T> __device__ void choose(const T* logits, i64 row, i64 all, i64 parts, i64* token, i64* length) {
  u64 best = best_of(share_of(logits, row, all, parts), parts);
  if (threadIdx.x == 0 && blockIdx.x % parts == 0) {
    token[blockIdx.x / parts] = (i64)(0xffffffffu - (u32)best);
    length[blockIdx.x / parts] += 1;
  }
  if (parts > 1) CLUSTER_SYNC();
}
extern "C" __global__ void choose_float(const float* l, i64 r, i64 w, i64 p, i64* t, i64* n) { BEGIN(); choose(l, r, w, p, t, n); }
extern "C" __global__ void choose_f16(const f16* l, i64 r, i64 w, i64 p, i64* t, i64* n) { BEGIN(); choose(l, r, w, p, t, n); }
extern "C" __global__ void choose_bf16(const bf16* l, i64 r, i64 w, i64 p, i64* t, i64* n) { BEGIN(); choose(l, r, w, p, t, n); }

// A draw. Weights are integers, so that sums are the same in any order; ranks are cut digit by digit from the top.
struct Draw { i64 top_k; u64 seed; double top_p, temperature; };

__device__ u64 uniform(u64 seed, u32 row, u64 position) {
  u32 a = (u32)position, b = (u32)(position >> 32), c = row, d = 0, k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; round++) {
    u64 left = 0xD2511F53ull * a, right = 0xCD9E8D57ull * c;
    a = (u32)(right >> 32) ^ b ^ k0; b = (u32)right; c = (u32)(left >> 32) ^ d ^ k1; d = (u32)left;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  return (u64)b << 32 | a;
}

#define DIGIT 10
// Of each digit's bin: how many ranks, and the sum of their weights as two words.
struct Bins { u32 count[1 << DIGIT], low[1 << DIGIT], high[1 << DIGIT]; };
struct Bin { u32 digit; u64 left, count, above, weight; };
struct Cut { u64 prefix; int shift; u64 total; };

template <class T> struct Drawing { Share<T> share; float most, temperature; int parts; Bins* bins; };

// The block's ranks that begin with `prefix`, sorted into bins by their next digit.
template <class T> __device__ void tally(const Drawing<T>& d, Bins* bins, u64 prefix, int top, int shift) {
  bins->count[threadIdx.x] = bins->low[threadIdx.x] = bins->high[threadIdx.x] = 0;
  __syncthreads();
  for (i64 i = threadIdx.x; i < d.share.width; i += blockDim.x) {
    float v = wide(d.share.from[i]);
    u64 r = rank_of(v, (u32)(d.share.start + i));
    if (top < 64 && r >> top != prefix) continue;
    u32 digit = (u32)(r >> shift) & ((1u << (top - shift)) - 1);
    atomicAdd(&bins->count[digit], 1u);
    u32 weight = __float2uint_rn(expf((v - d.most) / d.temperature) * 1073741824.f);
    if (weight) {
      u32 old = atomicAdd(&bins->low[digit], weight);
      if (old + weight < old) atomicAdd(&bins->high[digit], 1u);
    }
  }
}

__device__ __forceinline__ u64 sum_before(u64 v, u64* room) {
#pragma unroll
  for (int o = 1; o < 32; o *= 2) { u64 other = __shfl_up_sync(WHOLE_WARP, v, o); if (threadIdx.x % 32 >= o) v += other; }
  if (threadIdx.x % 32 == 31) room[threadIdx.x / 32] = v;
  __syncthreads();
  u64 base = 0;
  for (int w = 0; w < threadIdx.x / 32; w++) base += room[w];
  __syncthreads();
  return base + v;
}

// From the highest rank on: where the ranks' number (or, `by_weight`, their weight) reaches `target`. Two sets of
// bins: the first digit's are kept for the next cut.
template <class T> __device__ Cut cut(const Drawing<T>& d, u64 target, bool by_weight) {
  __shared__ u64 room[32];
  __shared__ Bin found;
  u64 prefix = 0, above = 0;
  for (int top = 64;;) {
    int shift = top > DIGIT ? top - DIGIT : 0, bin = blockDim.x - 1 - threadIdx.x;
    Bins* bins = d.bins + (top < 64);
    if (top < 64) { tally(d, bins, prefix, top, shift); TOGETHER(d.parts); }
    u64 count = bins->count[bin], weight = (u64)bins->high[bin] << 32 | bins->low[bin];
    if (d.parts > 1) {
      count = weight = 0;
      for (int part = 0; part < d.parts; part++) {
        count += remote_bits(&bins->count[bin], part);
        weight += (u64)remote_bits(&bins->high[bin], part) << 32 | remote_bits(&bins->low[bin], part);
      }
    }
    u64 counts = sum_before(count, room), weights = sum_before(weight, room);
    u64 own = by_weight ? weight : count, sum = by_weight ? weights : counts;
    if (sum >= target && sum - own < target) found = {(u32)bin, target - (sum - own), count, weights - weight, weight};
    TOGETHER(d.parts);
    Bin at = found;
    __syncthreads();
    prefix = prefix << (top - shift) | at.digit;
    above += at.above;
    if (!shift || (by_weight ? at.count == 1 : at.left == at.count)) return {prefix, shift, above + at.weight};
    target = at.left;
    top = shift;
  }
}

template <class T> __device__ void draw(const T* logits, i64 row, i64 all, i64 parts, i64* token, i64* length, const Draw& how) {
  __shared__ Bins bins[2];
  __shared__ u64 best_seen;
  i64 entry = blockIdx.x / parts;
  u64 position = (u64)length[entry] + 1;
  Share<T> share = share_of(logits, row, all, parts);
  u64 best = best_of(share, parts);
  if (threadIdx.x == 0) best_seen = best;
  TOGETHER(parts);
  u32 likeliest = 0xffffffffu - (u32)best_seen;
  float most = wide(logits[entry * row + likeliest]);
  bool leader = threadIdx.x == 0 && blockIdx.x % parts == 0;
  if (leader) length[entry] = (i64)position;
  if (!(fabsf(most) < INFINITE)) { if (leader) token[entry] = likeliest; return; }
  Drawing<T> d = {share, most, (float)how.temperature, (int)parts, bins};
  tally(d, bins, 0, 64, 64 - DIGIT);
  TOGETHER(parts);
  u64 total = cut(d, (u64)how.top_k, false).total;
  if (how.top_p < 1.0) total = cut(d, (u64)ceil(how.top_p * (double)total), true).total;
  Cut at = cut(d, __umul64hi(uniform(how.seed, (u32)entry, position), total) + 1, true);
  for (i64 i = threadIdx.x; i < share.width; i += blockDim.x)
    if (rank_of(wide(share.from[i]), (u32)(share.start + i)) >> at.shift == at.prefix) token[entry] = share.start + i;
}
#define DRAW(T) extern "C" __global__ __launch_bounds__(1024, 1) void draw_##T(const T* l, i64 r, i64 w, i64 p, i64* t, i64* n, Draw d) { BEGIN(); draw(l, r, w, p, t, n, d); }
DRAW(float) DRAW(f16) DRAW(bf16)
