// Convolution of one or two spatial axes, in groups: a block makes a tile of outputs of one filter block.
// T: element type.
struct Convolution {
  i64 batch, channels, height, width, filters, out_height, out_width, group, kernel_height, kernel_width;
  i64 stride_y, stride_x, dilation_y, dilation_x, top, left;
};

#define SIDE 64
#define DEPTH 16

// As a product of [filters, depth] and the unfolded windows [depth, pixels]: 64 × 64 outputs a block, 4 × 4 a thread.
extern "C" __global__ __launch_bounds__(256) void convolve(Convolution c, const T* x, const T* w, const T* bias, T* y) { BEGIN();
  __shared__ float left[DEPTH][SIDE + 1], right[DEPTH][SIDE + 1];
  i64 own = c.channels / c.group, mine = c.filters / c.group, kernel = c.kernel_height * c.kernel_width, depth = own * kernel;
  i64 pixels = c.out_height * c.out_width, image = blockIdx.z / c.group, part = blockIdx.z % c.group;
  i64 filter0 = blockIdx.y * (i64)SIDE, pixel0 = blockIdx.x * (i64)SIDE;
  const T* from = x + (image * c.channels + part * own) * c.height * c.width;
  const T* weight = w + part * mine * depth;
  int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  float acc[4][4] = {};
  for (i64 k0 = 0; k0 < depth; k0 += DEPTH) {
    for (int i = threadIdx.x; i < SIDE * DEPTH; i += 256) {
      int kk = i % DEPTH, r = i / DEPTH;
      left[kk][r] = (filter0 + r < mine && k0 + kk < depth) ? wide(weight[(filter0 + r) * depth + k0 + kk]) : 0.f;
      int p = i % SIDE, kp = i / SIDE;
      i64 k = k0 + kp, pixel = pixel0 + p;
      float v = 0.f;
      if (k < depth && pixel < pixels) {
        i64 channel = k / kernel, place = k % kernel;
        i64 row = pixel / c.out_width * c.stride_y - c.top + place / c.kernel_width * c.dilation_y;
        i64 column = pixel % c.out_width * c.stride_x - c.left + place % c.kernel_width * c.dilation_x;
        if (row >= 0 && row < c.height && column >= 0 && column < c.width) v = wide(from[(channel * c.height + row) * c.width + column]);
      }
      right[kp][p] = v;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < DEPTH; kk++) {
      float a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; i++) { a[i] = left[kk][ty * 4 + i]; b[i] = right[kk][tx + 16 * i]; }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) acc[i][j] += a[i] * b[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      i64 filter = filter0 + ty * 4 + i, pixel = pixel0 + tx + 16 * j;
      if (filter >= mine || pixel >= pixels) continue;
      i64 row = part * mine + filter;
      y[(image * c.filters + row) * pixels + pixel] = To<T>::from(acc[i][j] + (bias ? wide(bias[row]) : 0.f));
    }
}

// One filter a channel (or few channels a group): a thread an output.
extern "C" __global__ void convolve_few(Convolution c, const T* x, const T* w, const T* bias, T* y) { BEGIN();
  i64 own = c.channels / c.group, mine = c.filters / c.group, pixels = c.out_height * c.out_width, total = c.batch * c.filters * pixels;
  for (i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x; n < total; n += gridDim.x * (i64)blockDim.x) {
    i64 pixel = n % pixels, filter = n / pixels % c.filters, image = n / pixels / c.filters;
    const T* from = x + (image * c.channels + filter / mine * own) * c.height * c.width;
    const T* weight = w + filter * own * c.kernel_height * c.kernel_width;
    i64 row0 = pixel / c.out_width * c.stride_y - c.top, column0 = pixel % c.out_width * c.stride_x - c.left;
    float acc = 0.f;
    for (i64 channel = 0; channel < own; channel++)
      for (i64 a = 0; a < c.kernel_height; a++)
        for (i64 b = 0; b < c.kernel_width; b++, weight++) {
          i64 row = row0 + a * c.dilation_y, column = column0 + b * c.dilation_x;
          if (row >= 0 && row < c.height && column >= 0 && column < c.width) acc += wide(*weight) * wide(from[(channel * c.height + row) * c.width + column]);
        }
    y[n] = To<T>::from(acc + (bias ? wide(bias[filter]) : 0.f));
  }
}
