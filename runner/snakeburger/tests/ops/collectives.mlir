// all_gather: cross_replica, C1-C6.
module @all_gather {
  func.func @p(%x: tensor<1x2xi32>) -> tensor<3x2xi32> {
    %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[2, 0, 1]]> : tensor<1x3xi64>} : (tensor<1x2xi32>) -> tensor<3x2xi32>
    return %0 : tensor<3x2xi32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[[1, 2]]> : tensor<1x2xi32>
    %b = stablehlo.constant dense<[[3, 4]]> : tensor<1x2xi32>
    %c = stablehlo.constant dense<[[5, 6]]> : tensor<1x2xi32>
    %r:3 = "interpreter.run_parallel"(%a, %b, %c) {programs = [[@p], [@p], [@p]]} : (tensor<1x2xi32>, tensor<1x2xi32>, tensor<1x2xi32>) -> (tensor<3x2xi32>, tensor<3x2xi32>, tensor<3x2xi32>)
    check.expect_eq_const %r#0, dense<[[5, 6], [1, 2], [3, 4]]> : tensor<3x2xi32>
    check.expect_eq_const %r#2, dense<[[5, 6], [1, 2], [3, 4]]> : tensor<3x2xi32>
    return
  }
}

// -----

// all_gather: flattened_ids on a 2x2 grid in groups of two, C4, C5; replica_id, partition_id.
module @flattened {
  func.func @p() -> tensor<2xui32> {
    %r = stablehlo.replica_id : tensor<ui32>
    %q = stablehlo.partition_id : tensor<ui32>
    %ten = stablehlo.constant dense<10> : tensor<ui32>
    %s = stablehlo.multiply %r, %ten : tensor<ui32>
    %t = stablehlo.add %s, %q : tensor<ui32>
    %u = stablehlo.reshape %t : (tensor<ui32>) -> tensor<1xui32>
    %0 = "stablehlo.all_gather"(%u) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 3], [2, 1]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 7, type = 0>, use_global_device_ids} : (tensor<1xui32>) -> tensor<2xui32>
    return %0 : tensor<2xui32>
  }
  func.func @main() {
    %r:4 = "interpreter.run_parallel"() {programs = [[@p, @p], [@p, @p]]} : () -> (tensor<2xui32>, tensor<2xui32>, tensor<2xui32>, tensor<2xui32>)
    check.expect_eq_const %r#0, dense<[0, 11]> : tensor<2xui32>
    check.expect_eq_const %r#1, dense<[10, 1]> : tensor<2xui32>
    check.expect_eq_const %r#2, dense<[10, 1]> : tensor<2xui32>
    check.expect_eq_const %r#3, dense<[0, 11]> : tensor<2xui32>
    return
  }
}

// -----

// all_reduce: cross_replica_and_partition, two operands, a region that is no single operation; C5-C7.
module @all_reduce {
  func.func @p(%x: tensor<2xf32>, %y: tensor<f32>) -> (tensor<2xf32>, tensor<f32>) {
    %0:2 = "stablehlo.all_reduce"(%x, %y) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      %n = stablehlo.negate %m : tensor<f32>
      %k = stablehlo.negate %n : tensor<f32>
      stablehlo.return %k : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>} : (tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
    return %0#0, %0#1 : tensor<2xf32>, tensor<f32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1.0, 8.0]> : tensor<2xf32>
    %b = stablehlo.constant dense<[4.0, 2.0]> : tensor<2xf32>
    %c = stablehlo.constant dense<1.5> : tensor<f32>
    %d = stablehlo.constant dense<2.5> : tensor<f32>
    %r:8 = "interpreter.run_parallel"(%a, %c, %b, %c, %b, %d, %a, %c) {programs = [[@p, @p], [@p, @p]]} : (tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>)
    check.expect_eq_const %r#0, dense<[4.0, 8.0]> : tensor<2xf32>
    check.expect_eq_const %r#7, dense<2.5> : tensor<f32>
    return
  }
}

// -----

// all_reduce: the computation may be in a wider type, C5, C7.
module @promoted {
  func.func @p(%x: tensor<1xi8>) -> tensor<1xi32> {
    %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %m = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %m : tensor<i32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xi8>) -> tensor<1xi32>
    return %0 : tensor<1xi32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<100> : tensor<1xi8>
    %r:2 = "interpreter.run_parallel"(%a, %a) {programs = [[@p], [@p]]} : (tensor<1xi8>, tensor<1xi8>) -> (tensor<1xi32>, tensor<1xi32>)
    check.expect_eq_const %r#1, dense<200> : tensor<1xi32>
    return
  }
}

// -----

// all_to_all: cross_partition, C1-C9.
module @all_to_all {
  func.func @p(%x: tensor<2x4xi64>) -> tensor<4x2xi64> {
    %0 = "stablehlo.all_to_all"(%x) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>} : (tensor<2x4xi64>) -> tensor<4x2xi64>
    return %0 : tensor<4x2xi64>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
    %b = stablehlo.constant dense<[[10, 11, 12, 13], [14, 15, 16, 17]]> : tensor<2x4xi64>
    %r:2 = "interpreter.run_parallel"(%a, %b) {programs = [[@p, @p]]} : (tensor<2x4xi64>, tensor<2x4xi64>) -> (tensor<4x2xi64>, tensor<4x2xi64>)
    check.expect_eq_const %r#0, dense<[[0, 1], [4, 5], [10, 11], [14, 15]]> : tensor<4x2xi64>
    check.expect_eq_const %r#1, dense<[[2, 3], [6, 7], [12, 13], [16, 17]]> : tensor<4x2xi64>
    return
  }
}

// -----

// reduce_scatter: C1-C9.
module @reduce_scatter {
  func.func @p(%x: tensor<4xf64>) -> tensor<2xf64> {
    %0 = "stablehlo.reduce_scatter"(%x) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %m = stablehlo.add %a, %b : tensor<f64>
      stablehlo.return %m : tensor<f64>
    }) {scatter_dimension = 0 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<4xf64>) -> tensor<2xf64>
    return %0 : tensor<2xf64>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf64>
    %r:2 = "interpreter.run_parallel"(%a, %a) {programs = [[@p], [@p]]} : (tensor<4xf64>, tensor<4xf64>) -> (tensor<2xf64>, tensor<2xf64>)
    check.expect_eq_const %r#0, dense<[6.0, 8.0]> : tensor<2xf64>
    check.expect_eq_const %r#1, dense<[2.0, 4.0]> : tensor<2xf64>
    return
  }
}

// -----

// collective_broadcast: who is in no group gets zeros, C1-C3, C5; quantized zeros are the zero point.
module @broadcast {
  func.func @p(%x: tensor<1xi32>, %q: tensor<1x!quant.uniform<i8:f32, 0.5:3>>) -> (tensor<1xi32>, tensor<1xi8>) {
    %0:2 = "stablehlo.collective_broadcast"(%x, %q) {replica_groups = dense<[[1, 2]]> : tensor<1x2xi64>} : (tensor<1xi32>, tensor<1x!quant.uniform<i8:f32, 0.5:3>>) -> (tensor<1xi32>, tensor<1x!quant.uniform<i8:f32, 0.5:3>>)
    %1 = stablehlo.bitcast_convert %0#1 : (tensor<1x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1xi8>
    return %0#0, %1 : tensor<1xi32>, tensor<1xi8>
  }
  func.func @one() -> (tensor<1xi32>, tensor<1xi8>) {
    %x = stablehlo.constant dense<1> : tensor<1xi32>
    %s = stablehlo.constant dense<9> : tensor<1xi8>
    %q = stablehlo.bitcast_convert %s : (tensor<1xi8>) -> tensor<1x!quant.uniform<i8:f32, 0.5:3>>
    %0:2 = func.call @p(%x, %q) : (tensor<1xi32>, tensor<1x!quant.uniform<i8:f32, 0.5:3>>) -> (tensor<1xi32>, tensor<1xi8>)
    return %0#0, %0#1 : tensor<1xi32>, tensor<1xi8>
  }
  func.func @main() {
    %r:6 = "interpreter.run_parallel"() {programs = [[@one], [@one], [@one]]} : () -> (tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>)
    check.expect_eq_const %r#0, dense<0> : tensor<1xi32>
    check.expect_eq_const %r#1, dense<3> : tensor<1xi8>
    check.expect_eq_const %r#4, dense<1> : tensor<1xi32>
    check.expect_eq_const %r#5, dense<9> : tensor<1xi8>
    return
  }
}

// -----

// collective_reduce: a root chosen at run time, C1-C4; collective_permute: C1-C5.
module @roots {
  func.func @p(%x: tensor<2xi64>, %root: tensor<1xi32>) -> (tensor<2xi64>, tensor<2xi64>) {
    %0 = "stablehlo.collective_reduce"(%x, %root) ({
    ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %m = stablehlo.add %a, %b : tensor<i64>
      stablehlo.return %m : tensor<i64>
    }) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>, has_dynamic_root = true} : (tensor<2xi64>, tensor<1xi32>) -> tensor<2xi64>
    %1 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>} : (tensor<2xi64>) -> tensor<2xi64>
    return %0, %1 : tensor<2xi64>, tensor<2xi64>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    %b = stablehlo.constant dense<[10, 20]> : tensor<2xi64>
    %c = stablehlo.constant dense<[100, 200]> : tensor<2xi64>
    %root = stablehlo.constant dense<2> : tensor<1xi32>
    %r:6 = "interpreter.run_parallel"(%a, %root, %b, %root, %c, %root) {programs = [[@p], [@p], [@p]]} : (tensor<2xi64>, tensor<1xi32>, tensor<2xi64>, tensor<1xi32>, tensor<2xi64>, tensor<1xi32>) -> (tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>)
    check.expect_eq_const %r#0, dense<0> : tensor<2xi64>
    check.expect_eq_const %r#4, dense<[111, 222]> : tensor<2xi64>
    check.expect_eq_const %r#1, dense<[10, 20]> : tensor<2xi64>
    check.expect_eq_const %r#3, dense<[1, 2]> : tensor<2xi64>
    check.expect_eq_const %r#5, dense<0> : tensor<2xi64>
    return
  }
}

// -----

// cross-replica-sum; groups from the axes of a mesh: x is split into a part of 2 behind nothing.
module @mesh {
  func.func @p() -> (tensor<ui32>, tensor<ui32>) {
    %r = stablehlo.replica_id : tensor<ui32>
    %0 = "stablehlo.all_reduce"(%r) ({
    ^bb0(%a: tensor<ui32>, %b: tensor<ui32>):
      %m = stablehlo.add %a, %b : tensor<ui32>
      stablehlo.return %m : tensor<ui32>
    }) {replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 4>]>, axes = [#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>]>} : (tensor<ui32>) -> tensor<ui32>
    %1 = "stablehlo.cross-replica-sum"(%r) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<ui32>) -> tensor<ui32>
    return %0, %1 : tensor<ui32>, tensor<ui32>
  }
  func.func @main() {
    %r:8 = "interpreter.run_parallel"() {programs = [[@p], [@p], [@p], [@p]]} : () -> (tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>)
    check.expect_eq_const %r#0, dense<2> : tensor<ui32>
    check.expect_eq_const %r#2, dense<4> : tensor<ui32>
    check.expect_eq_const %r#1, dense<6> : tensor<ui32>
    return
  }
}

// -----

// send, recv: C1-C5; infeed: C1-C3; outfeed.
module @channels {
  func.func @queue0() -> tensor<2xi64> {
    %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    return %0 : tensor<2xi64>
  }
  func.func @queue1() -> tensor<2xi64> {
    %0 = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
    return %0 : tensor<2xi64>
  }
  func.func @sender(%token: !stablehlo.token) -> !stablehlo.token {
    %0:2 = "stablehlo.infeed"(%token) {infeed_config = ""} : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
    %1:2 = "stablehlo.infeed"(%0#1) {infeed_config = ""} : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
    %2 = stablehlo.subtract %1#0, %0#0 : tensor<2xi64>
    %3 = "stablehlo.send"(%2, %1#1) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xi64>, !stablehlo.token) -> !stablehlo.token
    %4 = "stablehlo.outfeed"(%2, %3) {outfeed_config = ""} : (tensor<2xi64>, !stablehlo.token) -> !stablehlo.token
    return %4 : !stablehlo.token
  }
  func.func @receiver(%token: !stablehlo.token) -> tensor<2xi64> {
    %0:2 = "stablehlo.recv"(%token) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
    return %0#0 : tensor<2xi64>
  }
  func.func @main() {
    %token = stablehlo.after_all : !stablehlo.token
    %r:2 = "interpreter.run_parallel"(%token, %token) {infeed = [@queue0, @queue1], programs = [[@sender], [@receiver]]} : (!stablehlo.token, !stablehlo.token) -> (!stablehlo.token, tensor<2xi64>)
    check.expect_eq_const %r#1, dense<2> : tensor<2xi64>
    return
  }
}

// -----

// interpreter.probe, interpreter.print, check.expect_serialized_eq; one process alone.
func.func @main() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = interpreter.probe %0, probe_id = "a" : tensor<2xi32>
  %2 = stablehlo.add %1, %1 : tensor<2xi32>
  %3 = interpreter.probe %2, probe_id = "a" : tensor<2xi32>
  interpreter.print %3 : tensor<2xi32>
  check.expect_serialized_eq %0, probe_id = "a" : tensor<2xi32>
  check.expect_serialized_eq %3, probe_id = "a", iter = 1 : tensor<2xi32>
  %5 = stablehlo.replica_id : tensor<ui32>
  check.expect_eq_const %5, dense<0> : tensor<ui32>
  return
}
