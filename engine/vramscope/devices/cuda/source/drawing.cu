// A draw. Weights are integers, so that sums are the same in any order. Logits are sorted into bins by how far
// they lie below the likeliest; a cut falls into one bin, and only that bin's logits are put in order.
struct Draw { i64 top_k; u64 seed; double top_p, temperature; };

#define BINS 1024
#define LISTED 1024
// Of each bin: how many logits of any weight, and the sum of their weights as two words.
struct Bins { u32 count[BINS], low[BINS], high[BINS]; };
struct Bin { u32 at, count; u64 left, above, weight; };
struct Cut { u64 total, prefix; int shift; };

// What a block has in shared memory; the lists of two cuts take turns.
struct Room {
  Bins bins;
  u64 list[2][LISTED], sorted[LISTED], sums[32], best;
  float least;
  u32 listed[2], counts[32];
  Bin found;
  Cut cut;
};

template <class T> struct Drawing { Share<T> share; float most, temperature, scale; int parts, turn; Room* room; };
// One thread's own bin, over the whole row, and the sums from the first bin up to it.
struct Own { u64 count, weight, counts, weights; };

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

template <class T> __device__ __forceinline__ u32 weight_of(const Drawing<T>& d, float v) {
  return __float2uint_rn(expf((v - d.most) / d.temperature) * 1073741824.f);
}
template <class T> __device__ __forceinline__ int bin_of(const Drawing<T>& d, float v) {
  return (int)fminf((d.most - v) * d.scale, BINS - 1);
}
__device__ __forceinline__ float value_of(u64 rank) {
  u32 key = (u32)(rank >> 32);
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}
__device__ __forceinline__ u64 remote_word(const u64* p, int rank) {
  return (u64)remote_bits((const u32*)p + 1, rank) << 32 | remote_bits(p, rank);
}

__device__ __forceinline__ u64 sum_before(u64 v, u64* room) {
#pragma unroll
  for (int o = 1; o < 32; o *= 2) { u64 other = __shfl_up_sync(WHOLE_WARP, v, o); if (threadIdx.x % 32 >= o) v += other; }
  if (threadIdx.x % 32 == 31) room[threadIdx.x / 32] = v;
  __syncthreads();
  u64 sums = room[threadIdx.x % 32];
#pragma unroll
  for (int o = 1; o < 32; o *= 2) { u64 other = __shfl_up_sync(WHOLE_WARP, sums, o); if (threadIdx.x % 32 >= o) sums += other; }
  u64 base = __shfl_sync(WHOLE_WARP, sums, (threadIdx.x / 32 + 31) % 32);
  __syncthreads();
  return (threadIdx.x < 32 ? 0 : base) + v;
}

__device__ __forceinline__ void put_in(Bins& bins, int bin, u32 weight) {
  atomicAdd(&bins.count[bin], 1u);
  u32 old = atomicAdd(&bins.low[bin], weight);
  if (old + weight < old) atomicAdd(&bins.high[bin], 1u);
}
__device__ __forceinline__ void empty(Bins& bins) { bins.count[threadIdx.x] = bins.low[threadIdx.x] = bins.high[threadIdx.x] = 0; }

// A bin's number and weight over all parts, and the sums up to it; `bin` grows, or falls, with the thread.
__device__ Own sums_of(Room& room, int bin, int parts) {
  Own own = {room.bins.count[bin], (u64)room.bins.high[bin] << 32 | room.bins.low[bin], 0, 0};
  if (parts > 1) {
    own.count = own.weight = 0;
#pragma unroll 4
    for (int part = 0; part < parts; part++) {
      own.count += remote_bits(&room.bins.count[bin], part);
      own.weight += (u64)remote_bits(&room.bins.high[bin], part) << 32 | remote_bits(&room.bins.low[bin], part);
    }
  }
  own.counts = sum_before(own.count, room.sums);
  own.weights = sum_before(own.weight, room.sums);
  return own;
}

// The bin in which the number, or the weight, from the first bin on reaches `target`; every thread gets it.
__device__ Bin reached(Room& room, const Own& own, int bin, u64 target, bool by_weight) {
  u64 mine = by_weight ? own.weight : own.count, sum = by_weight ? own.weights : own.counts;
  if (sum >= target && sum - mine < target)
    room.found = {(u32)bin, (u32)own.count, target - (sum - mine), own.weights - own.weight, own.weight};
  __syncthreads();
  Bin found = room.found;
  __syncthreads();
  return found;
}

// Descending over the block, one rank a thread; the ranks of threads from `width` (a power of two) on are 0.
__device__ u64 sorted(u64 mine, u64* room, int width) {
  for (int run = 2; run <= width; run *= 2)
    for (int apart = run / 2; apart; apart /= 2) {
      u64 other;
      if (apart >= 32) {
        room[threadIdx.x] = mine;
        __syncthreads();
        other = room[threadIdx.x ^ apart];
        __syncthreads();
      } else other = __shfl_xor_sync(WHOLE_WARP, mine, apart);
      bool larger = ((threadIdx.x & run) == 0) == ((threadIdx.x & apart) == 0);
      mine = (mine > other) == larger ? mine : other;
    }
  return mine;
}

// A cut inside a bin of few logits: they are gathered from all parts and put in order.
template <class T> __device__ Cut cut_listed(Drawing<T>& d, const Bin& at, bool by_weight) {
  Room& room = *d.room;
  int turn = d.turn ^= 1, width = 32;
  if (threadIdx.x == 0) room.listed[turn] = 0;
  __syncthreads();
  each(d.share, [&](float v, u32 index) {
    if (bin_of(d, v) == at.at && weight_of(d, v)) room.list[turn][atomicAdd(&room.listed[turn], 1u)] = rank_of(v, index);
  });
  TOGETHER(d.parts);
  if (threadIdx.x < d.parts) room.counts[threadIdx.x] = d.parts > 1 ? remote_bits(&room.listed[turn], threadIdx.x) : room.listed[turn];
  __syncthreads();
  u64 rank = 0;
  int place = threadIdx.x;
  for (int part = 0; part < d.parts; part++) {
    int count = room.counts[part];
    if (place >= 0 && place < count) rank = d.parts > 1 ? remote_word(&room.list[turn][place], part) : room.list[turn][place];
    place -= count;
  }
  while (width < at.count) width *= 2;
  rank = sorted(rank, room.sorted, width);
  u64 weight = threadIdx.x < at.count ? weight_of(d, value_of(rank)) : 0, sum = sum_before(weight, room.sums);
  if (threadIdx.x < at.count && (by_weight ? sum >= at.left && sum - weight < at.left : threadIdx.x + 1 == at.left))
    room.cut = {at.above + sum, rank, 0};
  __syncthreads();
  Cut cut = room.cut;
  __syncthreads();
  return cut;
}

// A cut anywhere, also where many logits are equal: ranks are cut digit by digit from the top.
template <class T> __device__ Cut cut_digits(const Drawing<T>& d, u64 target, bool by_weight) {
  Room& room = *d.room;
  u64 prefix = 0, above = 0;
  for (int top = 64;;) {
    int shift = top > 10 ? top - 10 : 0, bin = BINS - 1 - threadIdx.x;
    TOGETHER(d.parts);
    empty(room.bins);
    __syncthreads();
    each(d.share, [&](float v, u32 index) {
      u64 r = rank_of(v, index);
      if (top == 64 || r >> top == prefix) put_in(room.bins, (u32)(r >> shift) & ((1u << (top - shift)) - 1), weight_of(d, v));
    });
    TOGETHER(d.parts);
    Bin at = reached(room, sums_of(room, bin, d.parts), bin, target, by_weight);
    prefix = prefix << (top - shift) | at.at;
    above += at.above;
    if (!shift || (by_weight ? at.count == 1 : at.left == at.count)) return {above + at.weight, prefix, shift};
    target = at.left;
    top = shift;
  }
}

// From the likeliest on: where the logits' number (or, `by_weight`, their weight) reaches `target`. The rank there is
// the prefix, without its last `shift` bits; `exact` asks for all of a rank that is alone in its bin.
template <class T> __device__ Cut cut(Drawing<T>& d, const Own& own, u64 target, bool by_weight, bool exact) {
  Bin at = reached(*d.room, own, threadIdx.x, target, by_weight);
  if (!exact && (by_weight ? at.count == 1 : at.left == at.count)) return {at.above + at.weight, 0, 0};
  return at.count <= LISTED ? cut_listed(d, at, by_weight) : cut_digits(d, target, by_weight);
}

// The highest rank of the row and the least finite logit; every thread gets them.
template <class T> __device__ u64 extremes(const Share<T>& share, Room& room, int parts, float* lowest) {
  u64 best = 0;
  float least = INFINITE;
  each(share, [&](float v, u32 index) {
    u64 r = rank_of(v, index);
    best = r > best ? r : best;
    if (v > -INFINITE) least = fminf(least, v);
  });
  for (int round = 0; round < 3; round++) {
#pragma unroll
    for (int o = 16; o; o >>= 1) {
      u64 r = __shfl_xor_sync(WHOLE_WARP, best, o);
      best = r > best ? r : best;
      least = fminf(least, __shfl_xor_sync(WHOLE_WARP, least, o));
    }
    if (round == 2) break;
    int lane = threadIdx.x % 32;
    if (round == 0) {
      if (lane == 0) { room.sums[threadIdx.x / 32] = best; room.counts[threadIdx.x / 32] = __float_as_uint(least); }
      __syncthreads();
      best = room.sums[lane]; least = __uint_as_float(room.counts[lane]);
    } else {
      if (threadIdx.x == 0) { room.best = best; room.least = least; }
      TOGETHER(parts);
      if (parts > 1 && lane < parts) { best = remote_word(&room.best, lane); least = remote(&room.least, lane); }
    }
  }
  *lowest = least;
  return best;
}

template <class T> __device__ void draw(const T* logits, i64 row, i64 all, i64 parts, i64* token, i64* length, const Ring& ring, const Draw& how) {
  __shared__ Room room;
  i64 entry = blockIdx.x / parts, position = length[entry] + 1;
  Drawing<T> d = {share_of(logits, row, all, parts), 0, (float)how.temperature, 0, (int)parts, 0, &room};
  empty(room.bins);
  float least;
  u64 best = extremes(d.share, room, d.parts, &least);
  u32 likeliest = 0xffffffffu - (u32)best;
  d.most = value_of(best);
  bool leader = threadIdx.x == 0 && blockIdx.x % parts == 0;
  TOGETHER(d.parts);
  if (leader) length[entry] = position;
  if (!(fabsf(d.most) < INFINITE)) { if (leader) keep(token, ring, entry, likeliest, position); return; }
  float range = fminf(d.most - least, 22.f * d.temperature);
  d.scale = range > 0 ? (BINS - 1) / range : 0;
  each(d.share, [&](float v, u32) {
    u32 weight = weight_of(d, v);
    if (weight) put_in(room.bins, bin_of(d, v), weight);
  });
  TOGETHER(d.parts);
  Own own = sums_of(room, threadIdx.x, d.parts);
  if (threadIdx.x == blockDim.x - 1) room.found = {0, 0, own.counts, 0, own.weights};
  __syncthreads();
  u64 kept = room.found.left, total = room.found.weight;
  __syncthreads();
  if ((u64)how.top_k < kept) total = cut(d, own, (u64)how.top_k, false, false).total;
  if (how.top_p < 1.0) total = cut(d, own, (u64)ceil(how.top_p * (double)total), true, false).total;
  Cut at = cut(d, own, __umul64hi(uniform(how.seed, (u32)entry, (u64)position), total) + 1, true, true);
  if (!at.shift) { if (leader) keep(token, ring, entry, 0xffffffffu - (u32)at.prefix, position); }
  else each(d.share, [&](float v, u32 index) { if (rank_of(v, index) >> at.shift == at.prefix) keep(token, ring, entry, index, position); });
  TOGETHER(d.parts);
}
#define DRAW(T) extern "C" __global__ __launch_bounds__(1024, 1) void draw_##T(const T* l, i64 r, i64 w, i64 p, i64* t, i64* n, Ring k, Draw d) { BEGIN(); draw(l, r, w, p, t, n, k, d); }
DRAW(float) DRAW(f16) DRAW(bf16)
