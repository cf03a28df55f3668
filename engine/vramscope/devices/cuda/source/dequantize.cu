// Dequantised elements: S scale and output type; code kinds by name.
struct Table { i64 rows, inner, extent, row_scales, block, packed_zeros; double zero; };

template <int BITS, bool SIGNED> __device__ __forceinline__ float code_at(const u8* data, i64 index) {
  if (BITS == 8) return SIGNED ? (float)((const i8*)data)[index] : (float)data[index];
  int v = (data[index * BITS / 8] >> (index * BITS % 8)) & ((1 << BITS) - 1);
  if (SIGNED && v >= (1 << (BITS - 1))) v -= 1 << BITS;
  return (float)v;
}

// GatherBlockQuantized: rows of a table quantised along its last axis.
template <int BITS, bool SIGNED, class I>
__device__ void gather_rows(const Table& t, const u8* data, const I* index, const S* scales, const u8* zeros, S* out) {
  i64 total = t.rows * t.inner;
  i64 zero_row = SIGNED || t.packed_zeros == 0 ? t.row_scales : (t.row_scales * BITS + 7) / 8 * 8 / BITS;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < total; i += gridDim.x * (i64)blockDim.x) {
    i64 row = (i64)index[i / t.inner], k = i % t.inner, block = k / t.block;
    if (row < 0) row += t.extent;
    float v = 0.f;
    if (row >= 0 && row < t.extent) {
      float zero = zeros ? code_at<BITS, SIGNED>(zeros, row * zero_row + block) : (float)t.zero;
      v = (code_at<BITS, SIGNED>(data, row * t.inner + k) - zero) * wide(scales[row * t.row_scales + block]);
    }
    out[i] = To<S>::from(v);
  }
}
#define ROWS_OF(BITS, SIGNED, NAME, I) extern "C" __global__ void gather_##NAME##_##I(Table t, const u8* d, const I* x, \
  const S* s, const u8* z, S* o) { BEGIN(); gather_rows<BITS, SIGNED, I>(t, d, x, s, z, o); }
#define ROWS_BOTH(BITS, SIGNED, NAME) ROWS_OF(BITS, SIGNED, NAME, i32) ROWS_OF(BITS, SIGNED, NAME, i64)
ROWS_BOTH(2, false, u2) ROWS_BOTH(4, false, u4) ROWS_BOTH(8, false, u8) ROWS_BOTH(4, true, i4) ROWS_BOTH(8, true, i8)

// DequantizeLinear: [outer, extent, inner]; scale index by strides, so that one, per-axis and blocked scales are one form.
struct Linear { i64 count, extent, inner, block, s_outer, s_axis, s_inner; };
template <int BITS, bool SIGNED>
__device__ void dequantize(const Linear& l, const u8* data, const S* scales, const u8* zeros, S* out) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < l.count; i += gridDim.x * (i64)blockDim.x) {
    i64 inner = i % l.inner, rest = i / l.inner, axis = rest % l.extent, outer = rest / l.extent;
    i64 at = outer * l.s_outer + axis / l.block * l.s_axis + inner * l.s_inner;
    float zero = zeros ? code_at<BITS, SIGNED>(zeros, at) : 0.f;
    out[i] = To<S>::from((code_at<BITS, SIGNED>(data, i) - zero) * wide(scales[at]));
  }
}
#define LINEAR(BITS, SIGNED, NAME) extern "C" __global__ void dequantize_##NAME(Linear l, const u8* d, const S* s, \
  const u8* z, S* o) { BEGIN(); dequantize<BITS, SIGNED>(l, d, s, z, o); }
LINEAR(2, false, u2) LINEAR(4, false, u4) LINEAR(8, false, u8) LINEAR(2, true, i2) LINEAR(4, true, i4) LINEAR(8, true, i8)
