// What a decode step does around the program: feeds moved on by one token, the likeliest token chosen.
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

// `parts` blocks of a cluster share one row; each looks at its part, the first one chooses.
template <class T> __device__ void choose(const T* logits, i64 row, i64 all, i64 parts, i64* token, i64* length) {
  __shared__ u64 room[32], best_here;
  i64 entry = blockIdx.x / parts, share = (all + parts - 1) / parts / 64 * 64 + 64;
  i64 start = blockIdx.x % parts * share, width = all - start < share ? all - start : share;
  const T* from = logits + entry * row + start;
  u64 best = 0;
  constexpr int N = 16 / sizeof(T);
  i64 whole = ((u64)from % 16 == 0) ? width / N * N : 0;
#pragma unroll 4
  for (i64 i = threadIdx.x * N; i < whole; i += blockDim.x * N) {
    float v[N];
    load_wide<N>(from + i, v);
#pragma unroll
    for (int k = 0; k < N; k++) { u64 r = rank_of(v[k], (u32)(start + i + k)); best = r > best ? r : best; }
  }
  for (i64 i = whole + threadIdx.x; i < width; i += blockDim.x) { u64 r = rank_of(wide(from[i]), (u32)(start + i)); best = r > best ? r : best; }
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
  if (parts > 1) CLUSTER_SYNC(); else __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x % parts == 0) {
    best = best_here;
    for (int part = 1; part < parts; part++) {
      const u32* words = (const u32*)&best_here;
      u64 r = (u64)remote_bits(words + 1, part) << 32 | remote_bits(words, part);
      best = r > best ? r : best;
    }
    token[entry] = (i64)(0xffffffffu - (u32)best);
    length[entry] += 1;
  }
  if (parts > 1) CLUSTER_SYNC();
}
extern "C" __global__ void choose_float(const float* l, i64 r, i64 w, i64 p, i64* t, i64* n) { BEGIN(); choose(l, r, w, p, t, n); }
extern "C" __global__ void choose_f16(const f16* l, i64 r, i64 w, i64 p, i64* t, i64* n) { BEGIN(); choose(l, r, w, p, t, n); }
extern "C" __global__ void choose_bf16(const bf16* l, i64 r, i64 w, i64 p, i64* t, i64* n) { BEGIN(); choose(l, r, w, p, t, n); }
