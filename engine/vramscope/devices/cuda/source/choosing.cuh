// What choosing a token needs, greedy or drawn: the order of logits, a row shared by a cluster, where tokens go.
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

// Every logit of a share with its place in the row, 16 bytes at a time; consecutive ones at one thread.
template <class T, class F> __device__ __forceinline__ void each(const Share<T>& s, F visit) {
  constexpr int N = 16 / sizeof(T);
  i64 whole = ((u64)s.from % 16 == 0 && s.width > 0) ? s.width / N * N : 0;
#pragma unroll 4
  for (i64 i = threadIdx.x * N; i < whole; i += blockDim.x * N) {
    float v[N];
    load_wide<N>(s.from + i, v);
#pragma unroll
    for (int k = 0; k < N; k++) visit(v[k], (u32)(s.start + i + k));
  }
  for (i64 i = whole + threadIdx.x; i < s.width; i += blockDim.x) visit(wide(s.from[i]), (u32)(s.start + i));
}

// Where the newest tokens of every sequence are kept, [slots][sequences]: each at its sequence's length modulo slots.
struct Ring { i64* to; i64 slots, step; };

__device__ __forceinline__ void keep(i64* token, const Ring& ring, i64 entry, i64 chosen, i64 length) {
  token[entry] = chosen;
  if (ring.to) ring.to[length % ring.slots * ring.step + entry] = chosen;
}
