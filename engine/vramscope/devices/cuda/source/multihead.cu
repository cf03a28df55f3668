// The soft masks of com.microsoft's attention operators as one additive mask [entries, heads, rows, total].
// form 1: ends; 2: ends, then starts; 3: numbers of the new keys alone; 4: numbers of all keys (a stride a row).
struct Soft { i64 heads, rows, total, held, entries, form, mask_entry, mask_row, bias_entry, bias_head, bias_row; double filter, least; };

extern "C" __global__ void soft_mask(Soft s, const i32* mask, const T* bias, T* out) { BEGIN();
  i64 all = s.entries * s.heads * s.rows * s.total;
  for (i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x; n < all; n += gridDim.x * (i64)blockDim.x) {
    i64 key = n % s.total, rest = n / s.total, row = rest % s.rows, entry = rest / s.rows / s.heads, head = rest / s.rows % s.heads;
    bool seen = true;
    if (s.form == 1) seen = key < mask[entry];
    else if (s.form == 2) seen = key < mask[entry] && key >= mask[s.entries + entry];
    else if (s.form == 3) seen = key < s.held || mask[entry * s.mask_entry + key - s.held] != 0;
    else seen = mask[entry * s.mask_entry + row * s.mask_row + key] != 0;
    float v = bias ? wide(bias[entry * s.bias_entry + head * s.bias_head + row * s.bias_row + key]) : 0.f;
    if (!seen) v += (float)s.filter;
    if (v < (float)s.least && (!bias || v > -INFINITE)) v = (float)s.least;
    out[n] = To<T>::from(v);
  }
}
