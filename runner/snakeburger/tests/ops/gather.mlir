// gather: C1 to C9, C19 to C23: rows by number, moved inside where they are not.
func.func @rows() {
  %x = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>
  %i = stablehlo.constant dense<[2, 0, 7, -3]> : tensor<4xi32>
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}> : (tensor<3x2xi32>, tensor<4xi32>) -> tensor<4x2xi32>
  check.expect_eq_const %y, dense<[[5, 6], [1, 2], [5, 6], [1, 2]]> : tensor<4x2xi32>
  func.return
}

// -----

// gather: C3 with index vectors along the first dimension, in another order than the operand's.
func.func @vectors_first() {
  %x = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %i = stablehlo.constant dense<[[2, 0], [1, 0]]> : tensor<2x2xui8>
  %y = "stablehlo.gather"(%x, %i) {
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [1, 0]>,
    slice_sizes = array<i64: 1, 1>,
    indices_are_sorted = false
  } : (tensor<2x3xf32>, tensor<2x2xui8>) -> tensor<2xf32>
  check.expect_eq_const %y, dense<[6.0, 1.0]> : tensor<2xf32>
  func.return
}

// -----

// gather: C4, C5, C22: window dimensions around the one that counts windows.
func.func @offset_outside() {
  %x = stablehlo.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8>
  %i = stablehlo.constant dense<[[0], [1], [3]]> : tensor<3x1xi64>
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 2], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 2, 2>}> : (tensor<2x4xi8>, tensor<3x1xi64>) -> tensor<2x3x2xi8>
  check.expect_eq_const %y, dense<[[[1, 2], [2, 3], [3, 4]], [[5, 6], [6, 7], [7, 8]]]> : tensor<2x3x2xi8>
  func.return
}

// -----

// gather: C10 to C18: each batch looks into its own part of the operand.
func.func @batching() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %i = stablehlo.constant dense<[[[2], [0]], [[1], [1]]]> : tensor<2x2x1xi32>
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 2>}> : (tensor<2x3xi64>, tensor<2x2x1xi32>) -> tensor<2x2x2xi64>
  check.expect_eq_const %y, dense<[[[2, 3], [1, 2]], [[5, 6], [5, 6]]]> : tensor<2x2x2xi64>
  %j = stablehlo.constant dense<[[[0, 1], [2, 0]]]> : tensor<1x2x2xi32>
  %z = "stablehlo.gather"(%x, %j) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [2], start_index_map = [1], index_vector_dim = 0>, slice_sizes = array<i64: 1, 1>}> : (tensor<2x3xi64>, tensor<1x2x2xi32>) -> tensor<2x2xi64>
  check.expect_eq_const %z, dense<[[1, 5], [3, 4]]> : tensor<2x2xi64>
  func.return
}

// -----

// gather: C9, C21: slices of size zero make an empty result, unless their dimension is dropped.
func.func @empty() {
  %x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %i = stablehlo.constant dense<[[3]]> : tensor<1x1xi32>
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 0>}> : (tensor<3xi32>, tensor<1x1xi32>) -> tensor<1x0xi32>
  check.expect_eq_const %y, dense<> : tensor<1x0xi32>
  %j = stablehlo.constant dense<[[2], [-1]]> : tensor<2x1xi32>
  %z = "stablehlo.gather"(%x, %j) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 0>}> : (tensor<3xi32>, tensor<2x1xi32>) -> tensor<2xi32>
  check.expect_eq_const %z, dense<[3, 1]> : tensor<2xi32>
  func.return
}

// -----

// dynamic_gather: C1 to C14, the sizes of windows as a value.
func.func @dynamic() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xui32>
  %i = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
  %sizes = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %y = "stablehlo.dynamic_gather"(%x, %i, %sizes) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<2x3xui32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x2xui32>
  check.expect_eq_const %y, dense<[[4, 5], [1, 2]]> : tensor<2x2xui32>
  func.return
}

// -----

// torch_index_select: with and without leading dimensions in common, counted from either end.
func.func @select() {
  %x = stablehlo.constant dense<[[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]> : tensor<2x3x2xi32>
  %i = stablehlo.constant dense<[2, 0]> : tensor<2xi64>
  %y = "stablehlo.torch_index_select"(%x, %i) {dim = 1 : i64, batch_dims = 0 : i64} : (tensor<2x3x2xi32>, tensor<2xi64>) -> tensor<2x2x2xi32>
  check.expect_eq_const %y, dense<[[[5, 6], [1, 2]], [[11, 12], [7, 8]]]> : tensor<2x2x2xi32>
  %j = stablehlo.constant dense<[[0, 2], [1, 1]]> : tensor<2x2xi32>
  %z = "stablehlo.torch_index_select"(%x, %j) {dim = -2 : i64, batch_dims = -1 : i64} : (tensor<2x3x2xi32>, tensor<2x2xi32>) -> tensor<2x2x2xi32>
  check.expect_eq_const %z, dense<[[[1, 2], [5, 6]], [[9, 10], [9, 10]]]> : tensor<2x2x2xi32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %w = "stablehlo.torch_index_select"(%x, %k) {dim = 0 : i64, batch_dims = 0 : i64} : (tensor<2x3x2xi32>, tensor<i32>) -> tensor<3x2xi32>
  check.expect_eq_const %w, dense<[[7, 8], [9, 10], [11, 12]]> : tensor<3x2xi32>
  func.return
}
