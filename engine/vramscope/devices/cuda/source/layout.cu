// Kernels that move elements: Shape, Gather, GatherND, Range, TensorScatter, Slice with bounds on the device.
struct Numbers { i64 v[8]; };

extern "C" __global__ void write_numbers(Numbers numbers, int count, i64* out) { BEGIN();
  if (threadIdx.x < count) out[threadIdx.x] = numbers.v[threadIdx.x];
}

struct GatherShape { i64 outer, count, inner, extent, step_outer, step_axis, step_inner; };

template <class U, class I> __device__ void gather(const GatherShape& g, const U* data, const I* index, U* out) {
  i64 total = g.outer * g.count * g.inner;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += gridDim.x * (i64)blockDim.x) {
    i64 inner = i % g.inner, rest = i / g.inner, which = rest % g.count, outer = rest / g.count;
    i64 row = (i64)index[which];
    if (row < 0) row += g.extent;
    U value = {};
    if (row >= 0 && row < g.extent) value = data[outer * g.step_outer + row * g.step_axis + inner * g.step_inner];
    out[i] = value;
  }
}
typedef Pack<u32, 4> u128;
#define GATHER(U, I) extern "C" __global__ void gather_##U##_##I(GatherShape g, const U* d, const I* x, U* o) { BEGIN(); gather(g, d, x, o); }
GATHER(u8, i32) GATHER(u16, i32) GATHER(u32, i32) GATHER(u64, i32) GATHER(u128, i32)
GATHER(u8, i64) GATHER(u16, i64) GATHER(u32, i64) GATHER(u64, i64) GATHER(u128, i64)

// GatherND: index tuples of `depth`; batch axes are merged into one.
struct GatherNd { i64 batch, tuples, inner, depth, step_batch, extent[8], step[8]; };

template <class U> __device__ void gather_nd(const GatherNd& g, const U* data, const i64* index, U* out) {
  i64 total = g.batch * g.tuples * g.inner;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += gridDim.x * (i64)blockDim.x) {
    i64 inner = i % g.inner, rest = i / g.inner, at = (rest / g.tuples) * g.step_batch + inner;
    bool good = true;
    for (int k = 0; k < g.depth; k++) {
      i64 row = index[rest * g.depth + k];
      if (row < 0) row += g.extent[k];
      good = good && row >= 0 && row < g.extent[k];
      at += row * g.step[k];
    }
    U value = {};
    if (good) value = data[at];
    out[i] = value;
  }
}
#define GATHER_ND(U) extern "C" __global__ void gather_nd_##U(GatherNd g, const U* d, const i64* x, U* o) { BEGIN(); gather_nd(g, d, x, o); }
GATHER_ND(u8) GATHER_ND(u16) GATHER_ND(u32) GATHER_ND(u64)

#define RANGE(T) extern "C" __global__ void range_##T(const T* start, const T* delta, T* out, i64 count) { BEGIN(); \
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (i64)blockDim.x) \
    out[i] = *start + (T)i * *delta; }
RANGE(i64) RANGE(i32) RANGE(float) RANGE(double)

// Rows of an update go to rows write[b]…write[b]+S−1 of the cache; circular wraps, linear leaves out what is outside.
struct ScatterRows { i64 batch, outer, rows, update, inner, circular; };

template <class U> __device__ void scatter_rows(const ScatterRows& s, const U* update, const i64* write, U* out) {
  i64 total = s.batch * s.outer * s.update * s.inner;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += gridDim.x * (i64)blockDim.x) {
    i64 inner = i % s.inner, rest = i / s.inner, row = rest % s.update, lead = rest / s.update;
    i64 to = (write ? write[lead / s.outer] : 0) + row;
    if (s.circular) to %= s.rows;
    if (to >= 0 && to < s.rows) out[(lead * s.rows + to) * s.inner + inner] = update[i];
  }
}
#define SCATTER(U) extern "C" __global__ void scatter_rows_##U(ScatterRows s, const U* u, const i64* w, U* o) { BEGIN(); scatter_rows(s, u, w, o); }
SCATTER(u8) SCATTER(u16) SCATTER(u32) SCATTER(u64) SCATTER(u128)

// Slice whose starts and steps lie on the device, one number an axis in `axes` order.
struct SliceShape { i64 rank, extent[8], source[8], step[8], slot[8]; };

template <class U> __device__ void slice(const SliceShape& s, const U* data, const i64* starts, const i64* steps, U* out, i64 count) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (i64)blockDim.x) {
    i64 rest = i, at = 0;
    for (int axis = (int)s.rank - 1; axis >= 0; axis--) {
      i64 k = rest % s.extent[axis]; rest /= s.extent[axis];
      if (s.slot[axis] >= 0) {
        i64 start = starts[s.slot[axis]], step = steps ? steps[s.slot[axis]] : 1, n = s.source[axis];
        if (start < 0) start += n;
        start = start < 0 ? 0 : start > (step < 0 ? n - 1 : n) ? (step < 0 ? n - 1 : n) : start;
        k = start + k * step;
      }
      at += k * s.step[axis];
    }
    out[i] = data[at];
  }
}
#define SLICE(U) extern "C" __global__ void slice_##U(SliceShape s, const U* d, const i64* b, const i64* t, U* o, i64 n) { BEGIN(); slice(s, d, b, t, o, n); }
SLICE(u8) SLICE(u16) SLICE(u32) SLICE(u64)
