//! What makers' data sheets promise of their GPUs: dense arithmetic (without structured sparsity) at
//! boost clocks, and memory bandwidth.

use super::product::Precision;

/// How the figures are named where a measurement is held against one.
pub(crate) const SOURCE: &str = "data sheet, dense";

/// One model, by the name that its driver gives it.
struct Row {
    name: &'static str,
    /// TFLOP/s in the order of [`Precision::ALL`]; zero where it has no such unit.
    flops: [f64; 5],
    /// GB/s.
    bandwidth: f64,
}

const fn row(name: &'static str, flops: [f64; 5], bandwidth: f64) -> Row {
    Row { name, flops, bandwidth }
}

// fp32, tf32, bf16, fp16, fp8. GeForce cards: with sums in single precision, as they are computed.
const ROWS: &[Row] = &[
    row("NVIDIA H200", [67.0, 494.7, 989.4, 989.4, 1978.9], 4800.0),
    row("NVIDIA H200 NVL", [60.0, 417.5, 835.5, 835.5, 1670.5], 4800.0),
    row("NVIDIA H100 80GB HBM3", [67.0, 494.7, 989.4, 989.4, 1978.9], 3350.0),
    row("NVIDIA H100 NVL", [60.0, 417.5, 835.5, 835.5, 1670.5], 3900.0),
    row("NVIDIA H100 PCIe", [51.0, 378.0, 756.0, 756.0, 1513.0], 2000.0),
    row("NVIDIA A100-SXM4-80GB", [19.5, 156.0, 312.0, 312.0, 0.0], 2039.0),
    row("NVIDIA A100-SXM4-40GB", [19.5, 156.0, 312.0, 312.0, 0.0], 1555.0),
    row("NVIDIA A100 80GB PCIe", [19.5, 156.0, 312.0, 312.0, 0.0], 1935.0),
    row("NVIDIA A100-PCIE-40GB", [19.5, 156.0, 312.0, 312.0, 0.0], 1555.0),
    row("NVIDIA A10", [31.2, 62.5, 125.0, 125.0, 0.0], 600.0),
    row("NVIDIA L40S", [91.6, 183.0, 362.0, 362.0, 733.0], 864.0),
    row("NVIDIA L4", [30.3, 60.0, 121.0, 121.0, 242.5], 300.0),
    row("NVIDIA GeForce RTX 4090", [82.6, 82.6, 165.2, 165.2, 330.3], 1008.0),
    row("NVIDIA GeForce RTX 4080 SUPER", [52.2, 52.2, 104.4, 104.4, 208.9], 736.0),
    row("NVIDIA GeForce RTX 4080", [48.7, 48.7, 97.5, 97.5, 194.9], 716.8),
    row("NVIDIA GeForce RTX 3090", [35.6, 35.6, 71.0, 71.0, 0.0], 936.0),
    row("Tesla V100-SXM2-16GB", [15.7, 0.0, 0.0, 125.0, 0.0], 900.0),
    row("Tesla V100-SXM2-32GB", [15.7, 0.0, 0.0, 125.0, 0.0], 900.0),
    row("AMD Instinct MI300X", [163.4, 653.7, 1307.4, 1307.4, 2614.9], 5300.0),
];

fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// TFLOP/s of a model, where they are known.
pub(crate) fn flops(name: &str, precision: Precision) -> Option<f64> {
    find(name).map(|row| row.flops[precision as usize]).filter(|peak| *peak > 0.0)
}

/// GB/s of a model's memory, where they are known.
pub(crate) fn bandwidth(name: &str) -> Option<f64> {
    find(name).map(|row| row.bandwidth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_their_whole_name() {
        assert_eq!(flops("NVIDIA H200", Precision::Bf16), Some(989.4));
        assert_eq!(flops("NVIDIA H200 NVL", Precision::Fp8), Some(1670.5));
        assert_eq!(flops("NVIDIA A100-SXM4-80GB", Precision::Fp8), None);
        assert_eq!(flops("NVIDIA GeForce RTX 4090 Laptop GPU", Precision::Fp32), None);
        assert_eq!(bandwidth("NVIDIA L40S"), Some(864.0));
        assert_eq!(bandwidth("NVIDIA H201"), None);
    }

    #[test]
    fn rows_are_sane() {
        for row in ROWS {
            assert_eq!(ROWS.iter().filter(|other| other.name == row.name).count(), 1);
            let [single, tf32, bf16, half, fp8] = row.flops;
            assert!(single > 0.0 && half >= single, "{}", row.name);
            assert!(tf32 == 0.0 || tf32 >= 0.9 * single, "{}", row.name);
            assert!(bf16 == 0.0 || bf16 == half, "{}", row.name);
            assert!(fp8 == 0.0 || fp8 >= half, "{}", row.name);
            assert!(row.bandwidth >= 100.0, "{}", row.name);
        }
    }
}
