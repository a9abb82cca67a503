// add (C1): element types differ
func.func @f(%a: tensor<2xf32>, %b: tensor<2xf64>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xf32>
  return
}

// -----

// add: the result's shape does not follow
func.func @f(%a: tensor<2xf32>) {
  %0 = "stablehlo.add"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

// add: three operands
func.func @f(%a: tensor<2xf32>) {
  %0 = "stablehlo.add"(%a, %a, %a) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// ceil (I1) and popcnt (I1): two problems of one program
func.func @f(%a: tensor<2xi32>, %b: tensor<2xf32>) {
  %0 = stablehlo.ceil %a : tensor<2xi32>
  %1 = stablehlo.popcnt %b : tensor<2xf32>
  return
}

// -----

// compare (C3): an order that does not fit the type
func.func @f(%a: tensor<2xi32>) {
  %0 = stablehlo.compare LT, %a, %a, FLOAT : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  return
}

// -----

// select (C1): the predicate's shape
func.func @f(%p: tensor<3xi1>, %a: tensor<2xi32>) {
  %0 = stablehlo.select %p, %a, %a : tensor<3xi1>, tensor<2xi32>
  return
}

// -----

// clamp (C1), (C3)
func.func @f(%low: tensor<3xf32>, %x: tensor<2xf32>, %high: tensor<f64>) {
  %0 = "stablehlo.clamp"(%low, %x, %high) : (tensor<3xf32>, tensor<2xf32>, tensor<f64>) -> tensor<2xf32>
  return
}

// -----

// convert (C1)
func.func @f(%x: tensor<2xf32>) {
  %0 = stablehlo.convert %x : (tensor<2xf32>) -> tensor<3xi32>
  return
}

// -----

// bitcast_convert (C1): the widths do not divide
func.func @f(%x: tensor<2xf32>) {
  %0 = stablehlo.bitcast_convert %x : (tensor<2xf32>) -> tensor<2x3xi16>
  return
}

// -----

// bitcast_convert (C2): complex to real
func.func @f(%x: tensor<2xcomplex<f32>>) {
  %0 = stablehlo.bitcast_convert %x : (tensor<2xcomplex<f32>>) -> tensor<2xi64>
  return
}

// -----

// reduce_precision (C2), (C3)
func.func @f(%x: tensor<2xf32>) {
  %0 = "stablehlo.reduce_precision"(%x) {exponent_bits = 0 : i32, mantissa_bits = -1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// iota (C1)
func.func @f() {
  %0 = stablehlo.iota dim = 1 : tensor<4xi32>
  return
}

// -----

// reshape (C1), (C2)
func.func @f(%x: tensor<2x3xf32>) {
  %0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<5xf64>
  return
}

// -----

// broadcast_in_dim (C2), (C3), (C4), (C5)
func.func @f(%x: tensor<2x3xf32>) {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.broadcast_in_dim %x, dims = [1, 1] : (tensor<2x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

// transpose (C2), (C3)
func.func @f(%x: tensor<2x3xf32>) {
  %0 = stablehlo.transpose %x, dims = [0, 0] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// complex (I1), (C1)
func.func @f(%x: tensor<2xf16>, %y: tensor<2xf32>) {
  %0 = "stablehlo.complex"(%x, %y) : (tensor<2xf16>, tensor<2xf32>) -> tensor<2xcomplex<f32>>
  return
}

// -----

// a call of a function that is not there, and a function that returns something else
func.func @f(%x: tensor<2xf16>) -> tensor<3xf16> {
  %0 = call @g(%x) : (tensor<2xf16>) -> tensor<2xf16>
  return %0 : tensor<2xf16>
}

// -----

// a function that does not return, and a value of another kind
func.func @f(%x: !stablehlo.token) {
  %0 = "stablehlo.abs"(%x) : (!stablehlo.token) -> !stablehlo.token
}
