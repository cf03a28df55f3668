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

// The highest rank of the row; thread 0 of every block gets it. Nobody may leave before a further TOGETHER.
template <class T> __device__ u64 best_of(const Share<T>& s, i64 parts) {
  __shared__ u64 room[32], best_here;
  u64 best = 0;
  each(s, [&](float v, u32 index) { u64 r = rank_of(v, index); best = r > best ? r : best; });
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

template <class T> __device__ void choose(const T* logits, i64 row, i64 all, i64 parts, i64* token, i64* length, const Ring& ring) {
  u64 best = best_of(share_of(logits, row, all, parts), parts);
  if (threadIdx.x == 0 && blockIdx.x % parts == 0) {
    i64 entry = blockIdx.x / parts, now = length[entry] + 1;
    keep(token, ring, entry, (i64)(0xffffffffu - (u32)best), now);
    length[entry] = now;
  }
  if (parts > 1) CLUSTER_SYNC();
}
#define CHOOSE(T) extern "C" __global__ void choose_##T(const T* l, i64 r, i64 w, i64 p, i64* t, i64* n, Ring k) { BEGIN(); choose(l, r, w, p, t, n, k); }
CHOOSE(float) CHOOSE(f16) CHOOSE(bf16)
