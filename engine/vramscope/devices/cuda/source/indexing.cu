// Kernels that read or write where an index says: scatter, gather by element, one-hot, triangles, the largest of a line.
struct ScatterNd { i64 tuples, inner, depth, extent[8], step[8]; };

template <class U> __device__ void scatter_nd(const ScatterNd& s, const U* update, const i64* index, U* out) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < s.tuples * s.inner; i += gridDim.x * (i64)blockDim.x) {
    i64 tuple = i / s.inner, at = i % s.inner;
    bool good = true;
    for (int k = 0; k < s.depth; k++) {
      i64 row = index[tuple * s.depth + k];
      if (row < 0) row += s.extent[k];
      good = good && row >= 0 && row < s.extent[k];
      at += row * s.step[k];
    }
    if (good) out[at] = update[i];
  }
}

// Indices of `extent`, one an element; `step`: of the data, along `axis` walked by the index.
struct Elements { i64 rank, axis, size, count, extent[8], step[8]; };

template <class I> __device__ i64 element_at(const Elements& e, const I* index, i64 i, bool& good) {
  i64 rest = i, at = 0;
  for (int axis = (int)e.rank - 1; axis >= 0; axis--) {
    i64 k = rest % e.extent[axis]; rest /= e.extent[axis];
    if (axis == e.axis) { k = (i64)index[i]; if (k < 0) k += e.size; good = k >= 0 && k < e.size; }
    at += k * e.step[axis];
  }
  return at;
}
template <class U, class I> __device__ void gather_elements(const Elements& e, const U* data, const I* index, U* out) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < e.count; i += gridDim.x * (i64)blockDim.x) {
    bool good = true; i64 at = element_at(e, index, i, good); U value = {};
    if (good) value = data[at];
    out[i] = value;
  }
}
template <class U, class I> __device__ void scatter_elements(const Elements& e, const U* update, const I* index, U* out) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < e.count; i += gridDim.x * (i64)blockDim.x) {
    bool good = true; i64 at = element_at(e, index, i, good);
    if (good) out[at] = update[i];
  }
}

// The upper (or lower) triangle from diagonal k of the last two axes.
struct Triangle { i64 count, rows, columns, k, upper; };
template <class U> __device__ void triangle(const Triangle& t, const U* x, U* out) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < t.count; i += gridDim.x * (i64)blockDim.x) {
    i64 column = i % t.columns, row = i / t.columns % t.rows;
    U value = {};
    if (t.upper ? column - row >= t.k : column - row <= t.k) value = x[i];
    out[i] = value;
  }
}

// values = {off, on}.
struct OneHot { i64 count, depth, after; };
template <class U, class I> __device__ void one_hot(const OneHot& o, const I* index, const U* values, U* out) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < o.count; i += gridDim.x * (i64)blockDim.x) {
    i64 after = i % o.after, rest = i / o.after, place = rest % o.depth, wanted = (i64)wide(index[rest / o.depth * o.after + after]);
    out[i] = values[(wanted < 0 ? wanted + o.depth : wanted) == place];
  }
}

#define EACH_UNIT(M) M(u8) M(u16) M(u32) M(u64)
#define MOVES(U) \
  extern "C" __global__ void scatter_nd_##U(ScatterNd s, const U* d, const i64* x, U* o) { BEGIN(); scatter_nd(s, d, x, o); } \
  extern "C" __global__ void gather_elements_##U##_i64(Elements e, const U* d, const i64* x, U* o) { BEGIN(); gather_elements(e, d, x, o); } \
  extern "C" __global__ void gather_elements_##U##_i32(Elements e, const U* d, const i32* x, U* o) { BEGIN(); gather_elements(e, d, x, o); } \
  extern "C" __global__ void scatter_elements_##U##_i64(Elements e, const U* d, const i64* x, U* o) { BEGIN(); scatter_elements(e, d, x, o); } \
  extern "C" __global__ void scatter_elements_##U##_i32(Elements e, const U* d, const i32* x, U* o) { BEGIN(); scatter_elements(e, d, x, o); } \
  extern "C" __global__ void triangle_##U(Triangle t, const U* x, U* o) { BEGIN(); triangle(t, x, o); } \
  extern "C" __global__ void one_hot_##U##_i64(OneHot h, const i64* x, const U* v, U* o) { BEGIN(); one_hot(h, x, v, o); } \
  extern "C" __global__ void one_hot_##U##_i32(OneHot h, const i32* x, const U* v, U* o) { BEGIN(); one_hot(h, x, v, o); }
EACH_UNIT(MOVES)

// One block a line of `width` elements `inner` apart: the `count` highest (or lowest) in order, NaN above all.
struct Best { i64 width, inner, count, least, last; };

__device__ __forceinline__ u64 best_rank(float v, i64 index, const Best& b) {
  u32 bits = __float_as_uint(v == 0.f ? 0.f : v), key = v != v ? 0xffffffffu : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  if (b.least && v == v) key = ~key - 1;
  return (u64)key << 32 | (b.last ? (u32)index : 0xffffffffu - (u32)index);
}
template <class T> __device__ void best(const Best& b, const T* x, T* values, i64* places) {
  __shared__ u64 room[32];
  i64 base = blockIdx.x / b.inner * b.width * b.inner + blockIdx.x % b.inner, out = blockIdx.x / b.inner * b.count * b.inner + blockIdx.x % b.inner;
  u64 last = ~0ull;
  for (i64 n = 0; n < b.count; n++) {
    u64 found = 0;
    for (i64 i = threadIdx.x; i < b.width; i += blockDim.x) {
      u64 r = best_rank(wide(x[base + i * b.inner]), i, b);
      if ((n == 0 || r < last) && r > found) found = r;
    }
#pragma unroll
    for (int o = 16; o; o >>= 1) { u64 r = __shfl_xor_sync(WHOLE_WARP, found, o); found = r > found ? r : found; }
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = found;
    __syncthreads();
    last = 0;
    for (int w = 0; w < (blockDim.x + 31) / 32; w++) last = room[w] > last ? room[w] : last;
    i64 place = b.last ? (u32)last : 0xffffffffu - (u32)last;
    if (threadIdx.x == 0) {
      if (places) places[out + n * b.inner] = place;
      if (values) values[out + n * b.inner] = x[base + place * b.inner];
    }
  }
}
extern "C" __global__ void best_float(Best b, const float* x, float* v, i64* p) { BEGIN(); best(b, x, v, p); }
extern "C" __global__ void best_f16(Best b, const f16* x, f16* v, i64* p) { BEGIN(); best(b, x, v, p); }
extern "C" __global__ void best_bf16(Best b, const bf16* x, bf16* v, i64* p) { BEGIN(); best(b, x, v, p); }
