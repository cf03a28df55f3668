// One query row: its keys shared by several blocks.
// grid (splits, kv heads × chunks of the group, batch), 32 · WARPS threads: one query position, a share of its keys.
// As a cluster along x the blocks join their shares in each other's shared memory, and the block whose share holds
// the newest key appends it first.
struct Fresh { const T* k; const T* v; const T* norm; i64 k_b, k_h, v_b, v_h; double epsilon; };

extern "C" __global__ __launch_bounds__(32 * WARPS) void attend_split(Attend a, Fresh n) { BEGIN();
  constexpr int WIDTH = PARTS * VEC, SUBS = 32 / SIDE;
  __shared__ float queries[ROWS][PARTS * VEC * SIDE];
  __shared__ float most[WARPS][ROWS], sums[WARPS][ROWS], values[WARPS][ROWS][HEAD];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sub = lane / SIDE, part = lane % SIDE;
  i64 b = blockIdx.z, chunks = (a.group + ROWS - 1) / ROWS, kv = blockIdx.y / chunks;
  i64 head0 = kv * a.group + blockIdx.y % chunks * ROWS, heads = (kv + 1) * a.group - head0;
  Extent e = extent_of(a.lengths, b);
  i64 position = a.rotary.positions ? a.rotary.positions[b] : e.offset;
  for (int r = warp; r < ROWS; r += WARPS) {
    for (int i = HEAD + lane; i < PARTS * VEC * SIDE; i += 32) queries[r][i] = 0.f;
    if (r < heads)
      prepare(queries[r], a.q + b * a.q_b + (head0 + r) * a.q_h, position, a.rotary, a.norm, (float)a.epsilon, (float)a.scale);
    else for (int i = lane; i < HEAD; i += 32) queries[r][i] = 0.f;
  }
  __syncthreads();
  i64 low, high;
  visible(a, e, e.offset, &low, &high);
  if (e.count < 1) high = low;
  i64 share = high > low ? (high - low + a.splits - 1) / a.splits : 0;
  i64 begin = low + blockIdx.x * share, end = begin + share < high ? begin + share : high;
#ifdef CLUSTER
  __shared__ float block_most[ROWS], block_sums[ROWS], block_values[ROWS][HEAD], fresh[HEAD];
  i64 row = e.total - 1;
  if (e.count == 1 && row >= 0 && ((begin <= row && row < end) || (row >= high && blockIdx.x == 0))) {
    if (warp == 0) {
      prepare(fresh, n.k + b * n.k_b + kv * n.k_h, position, a.rotary, n.norm, (float)n.epsilon, 1.f);
      T* to = (T*)a.k + b * a.k_b + kv * a.k_h + row * a.k_s;
      for (int i = lane; i < HEAD; i += 32) to[i] = To<T>::from(fresh[i]);
    } else if (warp == 1) {
      const T* from = n.v + b * n.v_b + kv * n.v_h;
      T* to = (T*)a.v + b * a.v_b + kv * a.v_h + row * a.v_s;
      for (int i = lane; i < HEAD; i += 32) to[i] = from[i];
    }
  }
  __syncthreads();
#endif
  float q[ROWS][WIDTH], acc[ROWS][WIDTH], m[ROWS], l[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    m[r] = -INFINITE; l[r] = 0.f;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) { q[r][i] = queries[r][(i / VEC * SIDE + part) * VEC + i % VEC]; acc[r][i] = 0.f; }
  }
  const T* keys = a.k + b * a.k_b + kv * a.k_h;
  const T* vals = a.v + b * a.v_b + kv * a.v_h;
  for (i64 j0 = begin + warp * SUBS; j0 < end; j0 += WARPS * SUBS) {
    i64 j = j0 + sub;
    bool live = j < end;
    float key[WIDTH], value[WIDTH];
#pragma unroll
    for (int n = 0; n < PARTS; n++) {
      int at = (n * SIDE + part) * VEC;
      if (live && at < HEAD) { load_wide<VEC>(keys + j * a.k_s + at, key + n * VEC); load_wide<VEC>(vals + j * a.v_s + at, value + n * VEC); }
      else for (int i = 0; i < VEC; i++) { key[n * VEC + i] = 0.f; value[n * VEC + i] = 0.f; }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      float s = 0.f;
#pragma unroll
      for (int i = 0; i < WIDTH; i++) s += q[r][i] * key[i];
#pragma unroll
      for (int o = SIDE / 2; o; o /= 2) s += __shfl_xor_sync(WHOLE_WARP, s, o);
      if (a.softcap > 0) s = (float)a.softcap * tanhf(s / (float)a.softcap);
      if (a.mask_kind && live && r < heads) s += bias_at(a, b, head0 + r, 0, e.base + j);
      if (!live) s = -INFINITE;
      float top = fmaxf(m[r], s);
      if (top > -INFINITE) {
        float keep = rescale(m[r], top), weight = expf(s - top);
        l[r] = l[r] * keep + weight; m[r] = top;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) acc[r][i] = acc[r][i] * keep + weight * value[i];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
#pragma unroll
    for (int o = SIDE; o < 32; o *= 2) {
      float m2 = __shfl_xor_sync(WHOLE_WARP, m[r], o), l2 = __shfl_xor_sync(WHOLE_WARP, l[r], o), top = fmaxf(m[r], m2);
      float f1 = rescale(m[r], top), f2 = rescale(m2, top);
      l[r] = l[r] * f1 + l2 * f2; m[r] = top;
#pragma unroll
      for (int i = 0; i < WIDTH; i++) acc[r][i] = acc[r][i] * f1 + __shfl_xor_sync(WHOLE_WARP, acc[r][i], o) * f2;
    }
    if (sub == 0) {
#pragma unroll
      for (int i = 0; i < WIDTH; i++) { int at = (i / VEC * SIDE + part) * VEC + i % VEC; if (at < HEAD) values[warp][r][at] = acc[r][i]; }
      if (part == 0) { most[warp][r] = m[r]; sums[warp][r] = l[r]; }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * HEAD; i += 32 * WARPS) {
    int r = i / HEAD, d = i % HEAD;
    if (r >= heads) continue;
    float top = -INFINITE, total = 0.f, v = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) top = fmaxf(top, most[w][r]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) { float f = rescale(most[w][r], top); total += sums[w][r] * f; v += values[w][r][d] * f; }
#ifdef CLUSTER
    block_values[r][d] = v;
    if (d == 0) { block_most[r] = top; block_sums[r] = total; }
  }
  CLUSTER_SYNC();
  for (int i = blockIdx.x * 32 * WARPS + threadIdx.x; i < ROWS * HEAD; i += 32 * WARPS * (int)a.splits) {
    int r = i / HEAD, d = i % HEAD;
    if (r >= heads) continue;
    float top = -INFINITE, total = 0.f, v = 0.f, tops[CLUSTER], totals[CLUSTER], parts[CLUSTER];
#pragma unroll
    for (int c = 0; c < CLUSTER; c++) {
      tops[c] = remote(&block_most[r], c); totals[c] = remote(&block_sums[r], c);
      parts[c] = remote(&block_values[r][d], c);
    }
#pragma unroll
    for (int c = 0; c < CLUSTER; c++) top = fmaxf(top, tops[c]);
#pragma unroll
    for (int c = 0; c < CLUSTER; c++) {
      float f = rescale(tops[c], top);
      total += totals[c] * f; v += parts[c] * f;
    }
    i64 h = head0 + r;
    if (a.sink_zero) total += expf(0.f - top); else if (a.sink) total += expf(wide(a.sink[h]) - top);
    a.out[b * a.o_b + h * a.o_h + d] = To<T>::from(top == -INFINITE ? 0.f : v / total);
  }
  CLUSTER_SYNC();
#else
    i64 h = head0 + r;
    if (a.splits == 1) {
      if (a.sink_zero) total += expf(0.f - top); else if (a.sink) total += expf(wide(a.sink[h]) - top);
      a.out[b * a.o_b + h * a.o_h + d] = To<T>::from(top == -INFINITE ? 0.f : v / total);
    } else {
      float* to = a.partial + ((b * a.heads + h) * a.splits + blockIdx.x) * (HEAD + 2);
      to[2 + d] = v;
      if (d == 0) { to[0] = top; to[1] = total; }
    }
  }
#endif
}

#ifndef CLUSTER
// grid (heads, batch): joins the shares of one row.
extern "C" __global__ void combine(Attend a) { BEGIN();
  i64 h = blockIdx.x, b = blockIdx.y;
  const float* from = a.partial + (b * a.heads + h) * a.splits * (HEAD + 2);
  float top = -INFINITE, total = 0.f;
  for (int s = 0; s < a.splits; s++) top = fmaxf(top, from[s * (HEAD + 2)]);
  for (int s = 0; s < a.splits; s++) total += from[s * (HEAD + 2) + 1] * rescale(from[s * (HEAD + 2)], top);
  if (a.sink_zero) total += expf(0.f - top); else if (a.sink) total += expf(wide(a.sink[h]) - top);
  for (int d = threadIdx.x; d < HEAD; d += blockDim.x) {
    float v = 0.f;
    for (int s = 0; s < a.splits; s++) v += from[s * (HEAD + 2) + 2 + d] * rescale(from[s * (HEAD + 2)], top);
    a.out[b * a.o_b + h * a.o_h + d] = To<T>::from(top == -INFINITE ? 0.f : v / total);
  }
}

#endif
