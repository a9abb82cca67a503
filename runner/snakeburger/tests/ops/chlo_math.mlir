// chlo.acos.
func.func @main() {
  %0 = stablehlo.constant dense<[-1.0, -0.25, 0.5, 1.0]> : tensor<4xf64>
  %1 = chlo.acos %0 : tensor<4xf64> -> tensor<4xf64>
  %2 = stablehlo.constant dense<[3.141592653589793, 1.8234765819369754, 1.0471975511965979, 0.0]> : tensor<4xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<4xf64>, tensor<4xf64>) -> ()
  return
}

// -----

// chlo.acosh.
func.func @main() {
  %0 = stablehlo.constant dense<[1.0, 1.0009765625, 3.0, 10000000000.0]> : tensor<4xf64>
  %1 = chlo.acosh %0 : tensor<4xf64> -> tensor<4xf64>
  %2 = stablehlo.constant dense<[0.0, 0.044190578083110096, 1.762747174039086, 23.7189981105004]> : tensor<4xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<4xf64>, tensor<4xf64>) -> ()
  return
}

// -----

// chlo.asin.
func.func @main() {
  %0 = stablehlo.constant dense<[-1.0, -0.25, 0.5]> : tensor<3xf64>
  %1 = chlo.asin %0 : tensor<3xf64> -> tensor<3xf64>
  %2 = stablehlo.constant dense<[-1.5707963267948966, -0.25268025514207865, 0.5235987755982989]> : tensor<3xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  return
}

// -----

// chlo.asinh.
func.func @main() {
  %0 = stablehlo.constant dense<[-2.0, 0.125, 100000.0]> : tensor<3xf64>
  %1 = chlo.asinh %0 : tensor<3xf64> -> tensor<3xf64>
  %2 = stablehlo.constant dense<[-1.4436354751788103, 0.12467674692144275, 12.206072645555174]> : tensor<3xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  return
}

// -----

// chlo.atan.
func.func @main() {
  %0 = stablehlo.constant dense<[-2.0, 0.125, 100000.0]> : tensor<3xf64>
  %1 = chlo.atan %0 : tensor<3xf64> -> tensor<3xf64>
  %2 = stablehlo.constant dense<[-1.1071487177940904, 0.12435499454676144, 1.570786326794897]> : tensor<3xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  return
}

// -----

// chlo.atanh.
func.func @main() {
  %0 = stablehlo.constant dense<[-0.5, 0.125, 0.9375]> : tensor<3xf64>
  %1 = chlo.atanh %0 : tensor<3xf64> -> tensor<3xf64>
  %2 = stablehlo.constant dense<[-0.5493061443340549, 0.12565721414045303, 1.7169936022425731]> : tensor<3xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  return
}

// -----

// chlo.bessel_i1e.
func.func @main() {
  %0 = stablehlo.constant dense<[-3.0, 0.125, 12.5, 40.0]> : tensor<4xf64>
  %1 = chlo.bessel_i1e %0 : tensor<4xf64> -> tensor<4xf64>
  %2 = stablehlo.constant dense<[-0.19682671329730086, 0.05526385324160324, 0.10936143099065089, 0.062482229074442064]> : tensor<4xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<4xf64>, tensor<4xf64>) -> ()
  return
}

// -----

// chlo.cosh.
func.func @main() {
  %0 = stablehlo.constant dense<[-2.0, 0.125, 20.0]> : tensor<3xf64>
  %1 = chlo.cosh %0 : tensor<3xf64> -> tensor<3xf64>
  %2 = stablehlo.constant dense<[3.7621956910836314, 1.0078226778257109, 242582597.70489514]> : tensor<3xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  return
}

// -----

// chlo.sinh.
func.func @main() {
  %0 = stablehlo.constant dense<[-2.0, 0.125, 20.0]> : tensor<3xf64>
  %1 = chlo.sinh %0 : tensor<3xf64> -> tensor<3xf64>
  %2 = stablehlo.constant dense<[-3.6268604078470186, 0.12532577524111546, 242582597.70489514]> : tensor<3xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  return
}

// -----

// chlo.tan.
func.func @main() {
  %0 = stablehlo.constant dense<[-2.0, 0.125, 20.0]> : tensor<3xf64>
  %1 = chlo.tan %0 : tensor<3xf64> -> tensor<3xf64>
  %2 = stablehlo.constant dense<[2.185039863261519, 0.12565513657513097, 2.237160944224742]> : tensor<3xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  return
}

// -----

// chlo.digamma.
func.func @main() {
  %0 = stablehlo.constant dense<[0.25, 1.4375, 3.5, 40.0, -1.25]> : tensor<5xf64>
  %1 = chlo.digamma %0 : tensor<5xf64> -> tensor<5xf64>
  %2 = stablehlo.constant dense<[-4.2274535333762655, -0.023613544005297898, 1.103156640645243, 3.676327374034843, 3.714139120213528]> : tensor<5xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<5xf64>, tensor<5xf64>) -> ()
  return
}

// -----

// chlo.erf.
func.func @main() {
  %0 = stablehlo.constant dense<[-2.0, 0.125, 0.875, 3.0]> : tensor<4xf64>
  %1 = chlo.erf %0 : tensor<4xf64> -> tensor<4xf64>
  %2 = stablehlo.constant dense<[-0.9953222650189527, 0.1403162048013338, 0.7840750610598597, 0.9999779095030014]> : tensor<4xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<4xf64>, tensor<4xf64>) -> ()
  return
}

// -----

// chlo.erf_inv.
func.func @main() {
  %0 = stablehlo.constant dense<[-0.5, 0.125, 0.9990234375]> : tensor<3xf64>
  %1 = chlo.erf_inv %0 : tensor<3xf64> -> tensor<3xf64>
  %2 = stablehlo.constant dense<[-0.4769362762044699, 0.11123545184094996, 2.331467773621948]> : tensor<3xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  return
}

// -----

// chlo.erfc.
func.func @main() {
  %0 = stablehlo.constant dense<[-1.0, 0.125, 0.875, 5.0, 20.0]> : tensor<5xf64>
  %1 = chlo.erfc %0 : tensor<5xf64> -> tensor<5xf64>
  %2 = stablehlo.constant dense<[1.8427007929497148, 0.8596837951986662, 0.21592493894014034, 1.537459794428035e-12, 5.395865611607901e-176]> : tensor<5xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<5xf64>, tensor<5xf64>) -> ()
  return
}

// -----

// chlo.lgamma.
func.func @main() {
  %0 = stablehlo.constant dense<[0.125, 1.25, 2.125, 7.5, 100.0, -1.75]> : tensor<6xf64>
  %1 = chlo.lgamma %0 : tensor<6xf64> -> tensor<6xf64>
  %2 = stablehlo.constant dense<[2.0194183575537963, -0.09827183642181316, 0.057759851530343874, 7.534364236758733, 359.1342053695754, 1.0160888092144358]> : tensor<6xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<6xf64>, tensor<6xf64>) -> ()
  return
}

// -----

// chlo.lgamma in f32.
func.func @main() {
  %0 = stablehlo.constant dense<[0.125, 1.25, 2.125, 7.5]> : tensor<4xf32>
  %1 = chlo.lgamma %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = stablehlo.constant dense<[2.0194183575537963, -0.09827183642181316, 0.057759851530343874, 7.534364236758733]> : tensor<4xf32>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<4xf32>, tensor<4xf32>) -> ()
  return
}

// -----

// chlo.square.
func.func @main() {
  %0 = stablehlo.constant dense<[-3.0, 0.125]> : tensor<2xf64>
  %1 = chlo.square %0 : tensor<2xf64> -> tensor<2xf64>
  %2 = stablehlo.constant dense<[9.0, 0.015625]> : tensor<2xf64>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 3 : i64} : (tensor<2xf64>, tensor<2xf64>) -> ()
  return
}

// -----

// chlo.acos of complex numbers.
func.func @main() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-2.0, 3.5), (1.0, 1.0e-10)]> : tensor<3xcomplex<f64>>
  %1 = chlo.acos %0 : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  %2 = stablehlo.constant dense<[(1.0691874735193958, 0.2813960562452928), (2.076997859968994, -2.0951644322598453), (9.999999999916666e-06, -1.0000000000083334e-05)]> : tensor<3xcomplex<f64>>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> ()
  return
}

// -----

// chlo.acosh of complex numbers.
func.func @main() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-2.0, 3.5), (1.0, 1.0e-10)]> : tensor<3xcomplex<f64>>
  %1 = chlo.acosh %0 : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  %2 = stablehlo.constant dense<[(0.2813960562452928, -1.0691874735193958), (2.0951644322598453, 2.076997859968994), (1.0000000000083334e-05, 9.999999999916666e-06)]> : tensor<3xcomplex<f64>>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> ()
  return
}

// -----

// chlo.asin of complex numbers.
func.func @main() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-2.0, 3.5), (1.0, 1.0e-10)]> : tensor<3xcomplex<f64>>
  %1 = chlo.asin %0 : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  %2 = stablehlo.constant dense<[(0.5016088532755008, -0.2813960562452928), (-0.5062015331740977, 2.0951644322598453), (1.5707863267948967, 1.0000000000083334e-05)]> : tensor<3xcomplex<f64>>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> ()
  return
}

// -----

// chlo.asinh of complex numbers.
func.func @main() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-2.0, 3.5), (1.0, 1.0e-10)]> : tensor<3xcomplex<f64>>
  %1 = chlo.asinh %0 : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  %2 = stablehlo.constant dense<[(0.4926756834207706, -0.2243284526346675), (-2.0795673772714314, 1.03808530787808), (0.881373587019543, 7.071067811865475e-11)]> : tensor<3xcomplex<f64>>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> ()
  return
}

// -----

// chlo.atan of complex numbers.
func.func @main() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-2.0, 3.5), (1.0, 1.0e-10)]> : tensor<3xcomplex<f64>>
  %1 = chlo.atan %0 : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  %2 = stablehlo.constant dense<[(0.4842544903299662, -0.20058661813123432), (-1.442538020472735, 0.21528472794976874), (0.7853981633974483, 5.0e-11)]> : tensor<3xcomplex<f64>>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> ()
  return
}

// -----

// chlo.atanh of complex numbers.
func.func @main() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-2.0, 3.5), (1.0, 1.0e-10)]> : tensor<3xcomplex<f64>>
  %1 = chlo.atanh %0 : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  %2 = stablehlo.constant dense<[(0.5003700000525311, -0.3143981432077165), (-0.11808983573454865, 1.355633020233617), (11.8594990552502, 0.7853981634224483)]> : tensor<3xcomplex<f64>>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> ()
  return
}

// -----

// chlo.cosh of complex numbers.
func.func @main() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-2.0, 3.5), (1.0, 1.0e-10)]> : tensor<3xcomplex<f64>>
  %1 = chlo.cosh %0 : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  %2 = stablehlo.constant dense<[(1.0925708047319176, -0.12892104172809826), (-3.523133313811886, 1.2722418002442684), (1.5430806348152437, 1.1752011936438014e-10)]> : tensor<3xcomplex<f64>>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> ()
  return
}

// -----

// chlo.sinh of complex numbers.
func.func @main() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-2.0, 3.5), (1.0, 1.0e-10)]> : tensor<3xcomplex<f64>>
  %1 = chlo.sinh %0 : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  %2 = stablehlo.constant dense<[(0.504895714387995, -0.2789791283502615), (3.3963976827985656, -1.3197151477182962), (1.1752011936438014, 1.5430806348152438e-10)]> : tensor<3xcomplex<f64>>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> ()
  return
}

// -----

// chlo.tan of complex numbers.
func.func @main() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-2.0, 3.5), (1.0, 1.0e-10)]> : tensor<3xcomplex<f64>>
  %1 = chlo.tan %0 : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  %2 = stablehlo.constant dense<[(0.504500702698564, -0.3124206925025888), (0.0013818752668270378, 1.0011918484035776), (1.5574077246549023, 3.42551882081476e-10)]> : tensor<3xcomplex<f64>>
  "check.expect_close"(%1, %2) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> ()
  return
}

// -----

// chlo.polygamma, chlo.zeta: known values pi²/6 and pi⁴/15; domain errors are NaN.
func.func @main() {
  %n = stablehlo.constant dense<[1.0, 3.0, 0.5]> : tensor<3xf64>
  %x = stablehlo.constant dense<[1.0, 1.0, 1.0]> : tensor<3xf64>
  %0 = chlo.polygamma %n, %x : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  %1 = stablehlo.constant dense<[1.6449340668482264, 6.493939402266829, 0x7FF8000000000000]> : tensor<3xf64>
  "check.expect_close"(%0, %1) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  %s = stablehlo.constant dense<[2.0, 1.0, 0.5]> : tensor<3xf64>
  %2 = chlo.zeta %s, %x : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  %3 = stablehlo.constant dense<[1.6449340668482264, 0x7FF0000000000000, 0x7FF8000000000000]> : tensor<3xf64>
  "check.expect_close"(%2, %3) {min_ulp_difference = 0 : i64, max_ulp_difference = 2 : i64} : (tensor<3xf64>, tensor<3xf64>) -> ()
  return
}

// -----

// chlo.is_inf, chlo.is_neg_inf, chlo.is_pos_inf, chlo.next_after, chlo.conj, chlo.mulhi.
func.func @main() {
  %x = stablehlo.constant dense<[0x7F800000, 0xFF800000, 1.0]> : tensor<3xf32>
  %0 = chlo.is_inf %x : tensor<3xf32> -> tensor<3xi1>
  check.expect_eq_const %0, dense<[true, true, false]> : tensor<3xi1>
  %1 = chlo.is_neg_inf %x : tensor<3xf32> -> tensor<3xi1>
  check.expect_eq_const %1, dense<[false, true, false]> : tensor<3xi1>
  %2 = chlo.is_pos_inf %x : tensor<3xf32> -> tensor<3xi1>
  check.expect_eq_const %2, dense<[true, false, false]> : tensor<3xi1>
  %a = stablehlo.constant dense<[1.0, 0.0]> : tensor<2xbf16>
  %b = stablehlo.constant dense<[2.0, -1.0]> : tensor<2xbf16>
  %3 = chlo.next_after %a, %b : tensor<2xbf16>, tensor<2xbf16> -> tensor<2xbf16>
  check.expect_eq_const %3, dense<[1.0078125, -9.183550e-41]> : tensor<2xbf16>
  %c = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
  %4 = chlo.conj %c : tensor<complex<f32>> -> tensor<complex<f32>>
  check.expect_eq_const %4, dense<(1.0, -2.0)> : tensor<complex<f32>>
  %d = stablehlo.constant dense<[100, -100]> : tensor<2xi8>
  %5 = chlo.mulhi %d, %d : tensor<2xi8>, tensor<2xi8> -> tensor<2xi8>
  check.expect_eq_const %5, dense<39> : tensor<2xi8>
  return
}
