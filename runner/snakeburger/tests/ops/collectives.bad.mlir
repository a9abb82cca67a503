// all_gather C1: the dimension does not exist.
func.func @main(%x: tensor<2xi32>) -> tensor<4xi32> {
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// all_gather C2: an id twice.
func.func @main(%x: tensor<2xi32>) -> tensor<4xi32> {
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 0]]> : tensor<1x2xi64>} : (tensor<2xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// all_gather C4: an id out of range. C5: global ids without a channel. C6: a wrong size.
func.func @main(%x: tensor<2xi32>) -> tensor<5xi32> {
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2]]> : tensor<1x2xi64>, use_global_device_ids} : (tensor<2xi32>) -> tensor<5xi32>
  return %0 : tensor<5xi32>
}

// -----

// all_reduce C1, C3, C4, C5, C6.
func.func @main(%x: tensor<2xi32>) -> tensor<3xi32> {
  %0 = "stablehlo.all_reduce"(%x) ({
  ^bb0(%a: tensor<i8>, %b: tensor<i8>):
    stablehlo.return %a : tensor<i8>
  }) {replica_groups = dense<[[5, 5]]> : tensor<1x2xi64>, use_global_device_ids} : (tensor<2xi32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// -----

// all_to_all C1, C3, C4.
func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "stablehlo.all_to_all"(%x) {split_dimension = 1 : i64, concat_dimension = -1 : i64, split_count = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

// all_to_all C2, C5, C7, C8.
func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "stablehlo.all_to_all"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 3 : i64, replica_groups = dense<[[4, 4]]> : tensor<1x2xi64>} : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

// all_to_all C9.
func.func @main(%x: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %0 = "stablehlo.all_to_all"(%x) {split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2x2xi32>) -> tensor<2x2xi32>
  return %0 : tensor<2x2xi32>
}

// -----

// collective_broadcast C1, C2, C4: the root must be tensor<1xi32>.
func.func @main(%x: tensor<2xi32>, %r: tensor<i32>) -> tensor<2xi32> {
  %0 = "stablehlo.collective_broadcast"(%x, %r) {replica_groups = dense<[[-2, 1, 1]]> : tensor<1x3xi64>, has_dynamic_root} : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

// collective_broadcast C5: two results for one operand.
func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0:2 = "stablehlo.collective_broadcast"(%x) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>)
  return %0#0 : tensor<2xi32>
}

// -----

// collective_permute C1.
func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1, 2]]> : tensor<1x3xi64>} : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

// collective_permute C2, C3, C4.
func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1], [0, 1], [-1, 2]]> : tensor<3x2xi64>} : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

// reduce_scatter C1, C3, C6, C8, C9.
func.func @main(%x: tensor<3xi32>) -> tensor<2xi32> {
  %0 = "stablehlo.reduce_scatter"(%x) ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 0]]> : tensor<1x2xi64>, use_global_device_ids} : (tensor<3xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

// reduce_scatter C2, C5, C7.
func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.reduce_scatter"(%x) ({
  ^bb0(%a: tensor<i64>, %b: tensor<i64>):
    stablehlo.return %a : tensor<i64>
  }) {scatter_dimension = 3 : i64, replica_groups = dense<[[0, 7]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// collective_reduce C1, C2, C3, C4.
func.func @main(%x: tensor<2xi32>, %r: tensor<2xi32>) -> tensor<3xi32> {
  %0 = "stablehlo.collective_reduce"(%x, %r) ({
  ^bb0(%a: tensor<i8>, %b: tensor<i8>):
    stablehlo.return %a : tensor<i8>
  }) {replica_groups = dense<[[-3, 1, 1]]> : tensor<1x3xi64>, has_dynamic_root} : (tensor<2xi32>, tensor<2xi32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// -----

// send C2, C3, C5.
func.func @main(%x: tensor<2xi32>, %t: !stablehlo.token) -> !stablehlo.token {
  %0 = "stablehlo.send"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, source_target_pairs = dense<[[0, 1], [0, 1]]> : tensor<2x2xi64>} : (tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
  return %0 : !stablehlo.token
}

// -----

// recv C1, C5, and a result behind the token.
func.func @main(%t: !stablehlo.token) -> tensor<2xi32> {
  %0:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = true, source_target_pairs = dense<[[0]]> : tensor<1x1xi64>} : (!stablehlo.token) -> (!stablehlo.token, tensor<2xi32>)
  return %0#1 : tensor<2xi32>
}

// -----

// infeed C2, C3: a token first, a tensor last.
func.func @main(%t: !stablehlo.token) -> tensor<2xi32> {
  %0:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (!stablehlo.token, tensor<2xi32>)
  return %0#1 : tensor<2xi32>
}

// -----

// outfeed I2: no token.
func.func @main(%x: tensor<2xi32>) {
  %0 = "stablehlo.outfeed"(%x) : (tensor<2xi32>) -> !stablehlo.token
  return
}

// -----

// run_parallel: rows of different lengths, and a function that is not there.
func.func @p() {
  return
}
func.func @main() {
  "interpreter.run_parallel"() {programs = [[@p, @p], [@q]]} : () -> ()
  return
}

// -----

// At run time: the second process ends without taking part.
module @half {
  func.func @p(%x: tensor<1xi32>) -> tensor<2xi32> {
    %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xi32>) -> tensor<2xi32>
    return %0 : tensor<2xi32>
  }
  func.func @nothing() {
    return
  }
  func.func @main() {
    %x = stablehlo.constant dense<1> : tensor<1xi32>
    %0 = "interpreter.run_parallel"(%x) {programs = [[@p], [@nothing]]} : (tensor<1xi32>) -> tensor<2xi32>
    return
  }
}

// -----

// At run time: two processes wait for each other in different operations.
module @deadlock {
  func.func @p(%x: tensor<1xi32>) -> tensor<1xi32> {
    %0 = "stablehlo.collective_broadcast"(%x) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xi32>) -> tensor<1xi32>
    return %0 : tensor<1xi32>
  }
  func.func @q(%x: tensor<1xi32>) -> tensor<1xi32> {
    %0 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xi32>) -> tensor<1xi32>
    return %0 : tensor<1xi32>
  }
  func.func @main() {
    %x = stablehlo.constant dense<1> : tensor<1xi32>
    %0:2 = "interpreter.run_parallel"(%x, %x) {programs = [[@p], [@q]]} : (tensor<1xi32>, tensor<1xi32>) -> (tensor<1xi32>, tensor<1xi32>)
    return
  }
}

// -----

// At run time: an id beyond the grid (C3 of all_gather).
module @small {
  func.func @main() {
    %x = stablehlo.constant dense<1> : tensor<1xi32>
    %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xi32>) -> tensor<2xi32>
    return
  }
}
