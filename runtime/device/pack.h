// Elements that are moved at once.
#pragma once

namespace braid::rt::device {

// The alignment in bytes of a pack of n elements: one access moves at most 16 bytes.
template <class T, int n>
constexpr size_t kPackAlignment = sizeof(T) * n < 16 ? sizeof(T) * n : 16;

template <class T, int n>
struct alignas(kPackAlignment<T, n>) Pack {
  T values[n];
};

// The pack at `pointer`, which must be aligned as it is; to be written as a whole.
template <int n, class T>
__device__ auto* as_pack(T* pointer) {
#ifdef BRAID_EMULATED_DEVICE
  for (int e = 0; e < n; e += kPackAlignment<T, n> / sizeof(T))
    emulated::begin_pack(pointer + e, kPackAlignment<T, n>, true);
#endif
  return reinterpret_cast<Pack<T, n>*>(pointer);
}
// The same, to be read as a whole.
template <int n, class T>
__device__ auto* as_pack(const T* pointer) {
#ifdef BRAID_EMULATED_DEVICE
  for (int e = 0; e < n; e += kPackAlignment<T, n> / sizeof(T))
    emulated::begin_pack(pointer + e, kPackAlignment<T, n>, false);
#endif
  return reinterpret_cast<const Pack<T, n>*>(pointer);
}

// The n elements at `pointer`, which must be aligned as their pack is.
template <int n, class T>
__device__ Pack<T, n> load_pack(const T* pointer) {
  return *as_pack<n>(pointer);
}
// The first `valid` of them, at least one; the others are 0.
template <int n, class T, class Index>
__device__ Pack<T, n> load_pack(const T* pointer, Index valid) {
  if (n == 1 || valid >= n) return load_pack<n>(pointer);
  Pack<T, n> pack = {};
#pragma unroll
  for (int e = 0; e < n; ++e) {
    if (e < valid) pack.values[e] = pointer[e];
  }
  return pack;
}

template <class T, int n>
__device__ void store_pack(T* pointer, const Pack<T, n>& pack) {
  *as_pack<n>(pointer) = pack;
}
template <class T, int n, class Index>
__device__ void store_pack(T* pointer, const Pack<T, n>& pack, Index valid) {
  if (n == 1 || valid >= n) {
    store_pack(pointer, pack);
    return;
  }
#pragma unroll
  for (int e = 0; e < n; ++e) {
    if (e < valid) pointer[e] = pack.values[e];
  }
}

}  // namespace braid::rt::device
