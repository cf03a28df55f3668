// C = alpha · A · B + beta · bias through the matrix units. T: f16 or bf16 (HALF 1 or 0); COLUMNS 1: B is [k, n] with n
// side by side, 0: [n, k] with k side by side. A block makes 128 × 128 of C from slices of 32 along k, three in flight.
#define TILE 128
#define SLICE 32
#define STAGES 3
#define STAGE_BYTES (2 * TILE * SLICE * 2)

struct Tensor { i64 m, n, k, a_m, b_row, c_m, bias_m, bias_n; double alpha, beta; };

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void copy16(u32 to, const void* from, bool there) {
  int size = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(size));
}

__device__ __forceinline__ void load4(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void load4_turned(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

#if HALF
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif

// 16-byte pieces of a row of 32 elements are exchanged so that eight rows of one column of pieces use every bank.
__device__ __forceinline__ u32 piece(int row, int chunk) { return (u32)(row * 64 + ((chunk ^ (row >> 1)) & 3) * 16); }
__device__ __forceinline__ u32 turned_piece(int row, int chunk) { return (u32)(row * 256 + (chunk ^ (row & 7)) * 16); }

__device__ __forceinline__ void stage(const Tensor& t, const T* a, const T* b, u32 to, i64 row0, i64 column0, i64 k0) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int item = threadIdx.x + i * 256, row = item / 4, chunk = item % 4;
    bool there = row0 + row < t.m && k0 + chunk * 8 < t.k;
    copy16(to + piece(row, chunk), there ? a + (row0 + row) * t.a_m + k0 + chunk * 8 : a, there);
#if COLUMNS
    int kk = item / 16, n = item % 16;
    there = k0 + kk < t.k && column0 + n * 8 < t.n;
    copy16(to + TILE * SLICE * 2 + turned_piece(kk, n), there ? b + (k0 + kk) * t.b_row + column0 + n * 8 : b, there);
#else
    there = column0 + row < t.n && k0 + chunk * 8 < t.k;
    copy16(to + TILE * SLICE * 2 + piece(row, chunk), there ? b + (column0 + row) * t.b_row + k0 + chunk * 8 : b, there);
#endif
  }
}

extern "C" __global__ __launch_bounds__(256) void tensor(Tensor t, const T* a, const T* b, const T* bias, T* c) {
  BEGIN();
  extern __shared__ __align__(128) u8 room[];
  u32 base = shared_address(room);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / 4 * 64, wn = warp % 4 * 32;
  i64 row0 = blockIdx.x * (i64)TILE, column0 = blockIdx.y * (i64)TILE, slices = (t.k + SLICE - 1) / SLICE;
  float acc[4][4][4] = {};
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < slices) stage(t, a, b, base + s * STAGE_BYTES, row0, column0, s * SLICE);
    asm volatile("cp.async.commit_group;");
  }
  for (i64 s = 0; s < slices; s++) {
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2));
    __syncthreads();
    i64 next = s + STAGES - 1;
    if (next < slices) stage(t, a, b, base + (u32)(next % STAGES) * STAGE_BYTES, row0, column0, next * SLICE);
    asm volatile("cp.async.commit_group;");
    u32 at = base + (u32)(s % STAGES) * STAGE_BYTES, right = at + TILE * SLICE * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      u32 x[4][4], w[4][2];
#pragma unroll
      for (int i = 0; i < 4; i++) load4(x[i], at + piece(wm + i * 16 + lane % 16, half * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < 2; j++) {
        u32 r[4];
#if COLUMNS
        load4_turned(r, right + turned_piece(half * 16 + lane % 16, (wn + j * 16) / 8 + lane / 16));
#else
        load4(r, right + piece(wn + j * 16 + lane / 16 * 8 + lane % 8, half * 2 + lane / 8 % 2));
#endif
        w[2 * j][0] = r[0]; w[2 * j][1] = r[1]; w[2 * j + 1][0] = r[2]; w[2 * j + 1][1] = r[3];
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          asm volatile(PRODUCT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
              : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
              : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(w[j][0]), "r"(w[j][1]));
    }
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        i64 row = row0 + wm + i * 16 + lane / 4 + h * 8, column = column0 + wn + j * 8 + lane % 4 * 2;
        if (row >= t.m || column >= t.n) continue;
        Pack<T, 2> out;
#pragma unroll
        for (int e = 0; e < 2; e++) {
          float v = (float)t.alpha * acc[i][j][2 * h + e];
          if (bias) v += (float)t.beta * wide(bias[row * t.bias_m + (column + e) * t.bias_n]);
          out.v[e] = To<T>::from(v);
        }
        *(Pack<T, 2>*)(c + row * t.c_m + column) = out;
      }
}
