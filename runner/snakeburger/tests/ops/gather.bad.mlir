// gather C1: the dimension lists do not name each dimension of the operand.
func.func @f(%x: tensor<3x4x6xi32>, %i: tensor<5x1xi64>) -> tensor<5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4, 6>}> : (tensor<3x4x6xi32>, tensor<5x1xi64>) -> tensor<5x4xi32>
  func.return %y : tensor<5x4xi32>
}

// -----

// gather C2: no place for index vectors.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 3>, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5x4xi32>
  func.return %y : tensor<5x4xi32>
}

// -----

// gather C3: index vectors of another length than start_index_map.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x2xi64>) -> tensor<5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xi32>, tensor<5x2xi64>) -> tensor<5x4xi32>
  func.return %y : tensor<5x4xi32>
}

// -----

// gather C4: offset_dims out of order.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5x3x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 1], collapsed_slice_dims = [], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 3, 4>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5x3x4xi32>
  func.return %y : tensor<5x3x4xi32>
}

// -----

// gather C5: an offset dimension outside the result.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5x4xi32>
  func.return %y : tensor<5x4xi32>
}

// -----

// gather C6: a collapsed dimension twice.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [0, 0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5xi32>
  func.return %y : tensor<5xi32>
}

// -----

// gather C7: collapsed dimensions out of order.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [1, 0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5xi32>
  func.return %y : tensor<5xi32>
}

// -----

// gather C8: a collapsed dimension that is none.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [2], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5x4xi32>
  func.return %y : tensor<5x4xi32>
}

// -----

// gather C9: a collapsed dimension with a larger slice.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2, 4>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5x4xi32>
  func.return %y : tensor<5x4xi32>
}

// -----

// gather C10: batching dimensions out of order.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<3x2x1xi64>) -> tensor<3x2x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [], operand_batching_dims = [1, 0], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<2x3x4xi32>, tensor<3x2x1xi64>) -> tensor<3x2x4xi32>
  func.return %y : tensor<3x2x4xi32>
}

// -----

// gather C11: a batching dimension that is none.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<2x5x1xi64>) -> tensor<2x5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [3], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<2x3x4xi32>, tensor<2x5x1xi64>) -> tensor<2x5x4xi32>
  func.return %y : tensor<2x5x4xi32>
}

// -----

// gather C12: a batching dimension with a larger slice.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<2x5x1xi64>) -> tensor<2x5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 2, 1, 4>}> : (tensor<2x3x4xi32>, tensor<2x5x1xi64>) -> tensor<2x5x4xi32>
  func.return %y : tensor<2x5x4xi32>
}

// -----

// gather C13: an index's batching dimension twice.
func.func @f(%x: tensor<2x2x4xi32>, %i: tensor<2x5x1xi64>) -> tensor<2x5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 0], start_index_map = [2], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<2x2x4xi32>, tensor<2x5x1xi64>) -> tensor<2x5x4xi32>
  func.return %y : tensor<2x5x4xi32>
}

// -----

// gather C14: an index's batching dimension that is none.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<2x5x1xi64>) -> tensor<2x5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [-1], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<2x3x4xi32>, tensor<2x5x1xi64>) -> tensor<2x5x4xi32>
  func.return %y : tensor<2x5x4xi32>
}

// -----

// gather C15: index vectors along a batching dimension.
func.func @f(%x: tensor<1x3x4xi32>, %i: tensor<2x5x1xi64>) -> tensor<2x5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [2], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<1x3x4xi32>, tensor<2x5x1xi64>) -> tensor<2x5x4xi32>
  func.return %y : tensor<2x5x4xi32>
}

// -----

// gather C16: more batching dimensions on one side.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<2x5x1xi64>) -> tensor<2x5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0, 1], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<2x3x4xi32>, tensor<2x5x1xi64>) -> tensor<2x5x4xi32>
  func.return %y : tensor<2x5x4xi32>
}

// -----

// gather C17: batching dimensions of different sizes.
func.func @f(%x: tensor<7x3x4xi32>, %i: tensor<2x5x1xi64>) -> tensor<2x5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<7x3x4xi32>, tensor<2x5x1xi64>) -> tensor<2x5x4xi32>
  func.return %y : tensor<2x5x4xi32>
}

// -----

// gather C18: a dimension both indexed and batching.
func.func @f(%x: tensor<2x3x4xi32>, %i: tensor<2x5x1xi64>) -> tensor<2x5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<2x3x4xi32>, tensor<2x5x1xi64>) -> tensor<2x5x4xi32>
  func.return %y : tensor<2x5x4xi32>
}

// -----

// gather C19: an indexed dimension that is none.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [2], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5x4xi32>
  func.return %y : tensor<5x4xi32>
}

// -----

// gather C20: slice sizes of another rank.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5x4xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4, 1>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5x4xi32>
  func.return %y : tensor<5x4xi32>
}

// -----

// gather C21: a slice larger than the operand.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5x5xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5x5xi32>
  func.return %y : tensor<5x5xi32>
}

// -----

// gather C22: another shape.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>) -> tensor<5x3xi32> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xi32>, tensor<5x1xi64>) -> tensor<5x3xi32>
  func.return %y : tensor<5x3xi32>
}

// -----

// gather C23, I2: another element type, indices that are floats.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xf32>) -> tensor<5x4xi64> {
  %y = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xi32>, tensor<5x1xf32>) -> tensor<5x4xi64>
  func.return %y : tensor<5x4xi64>
}

// -----

// dynamic_gather C6, C9, C11, C14: lists with doubles, sizes of another rank, another element type.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x2xi64>, %s: tensor<3xi32>) -> tensor<?xi64> {
  %y = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 0], start_index_map = [0, 0], index_vector_dim = 1>}> : (tensor<3x4xi32>, tensor<5x2xi64>, tensor<3xi32>) -> tensor<?xi64>
  func.return %y : tensor<?xi64>
}

// -----

// dynamic_gather C1, C2, C5, C7, C10: dimensions that are none.
func.func @f(%x: tensor<3x4x5xi32>, %i: tensor<5x1xi64>, %s: tensor<3xi32>) -> tensor<?x?xi32> {
  %y = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [3], start_index_map = [-1], index_vector_dim = 4>}> : (tensor<3x4x5xi32>, tensor<5x1xi64>, tensor<3xi32>) -> tensor<?x?xi32>
  func.return %y : tensor<?x?xi32>
}

// -----

// dynamic_gather C3, C4: index vectors of another length, offset_dims out of order.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %s: tensor<2xi32>) -> tensor<5x?x?xi32> {
  %y = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 1], start_index_map = [0, 1], index_vector_dim = 1>}> : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<2xi32>) -> tensor<5x?x?xi32>
  func.return %y : tensor<5x?x?xi32>
}

// -----

// dynamic_gather C13: another number of windows.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5x1xi64>, %s: tensor<2xi32>) -> tensor<6x?xi32> {
  %y = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<3x4xi32>, tensor<5x1xi64>, tensor<2xi32>) -> tensor<6x?xi32>
  func.return %y : tensor<6x?xi32>
}

// -----

// torch_index_select: dimensions that do not fit.
func.func @f(%x: tensor<3x4xi32>, %i: tensor<5xi64>) -> tensor<3x5xi32> {
  %y = "stablehlo.torch_index_select"(%x, %i) {dim = 2 : i64, batch_dims = 0 : i64} : (tensor<3x4xi32>, tensor<5xi64>) -> tensor<3x5xi32>
  func.return %y : tensor<3x5xi32>
}
