//! Additional computations of the steps, in an efficient and an inefficient variant.

use mlprof_core::prelude::profiled;
use mlprof_tch::prelude::TrainResult;
use tch::{Kind, Tensor};

/// Returns the images, enlarged to `side` × `side` pixels.
fn enlarged(images: &Tensor, side: i64) -> TrainResult<Tensor> {
    Ok(images.f_upsample_nearest2d([side, side], None, None)?)
}

/// Returns a normalised power of the matrix of pixel products of the enlarged images. It is
/// expensive and shows how pixels vary together.
#[profiled]
pub(crate) fn spectrum(images: &Tensor, side: i64, precision: Kind) -> TrainResult<Tensor> {
    let images = enlarged(images, side)?.f_to_kind(precision)?;
    let pixels = images.f_view([images.size()[0], -1])?;
    let mut power = pixels.f_transpose(0, 1)?.f_mm(&pixels)?;
    for _ in 0..4 {
        power = power.f_mm(&power)?;
        power = power.f_div(&power.f_norm()?)?;
    }
    Ok(power)
}

/// Returns the sum of the pixels' distances from their mean, in standard deviations. Both values
/// are read from their tensors again for each pixel, which is inefficient on purpose.
#[profiled]
pub(crate) fn contrast(images: &Tensor) -> TrainResult<f64> {
    let images = enlarged(images, 16)?;
    let (mean, deviation) = (images.f_mean(Kind::Float)?, images.f_std(true)?);
    let pixels = Vec::<f32>::try_from(images.f_view([-1])?)?;
    let far = |pixel: f32| {
        let beyond = f64::from(pixel) - mean.f_double_value(&[])?;
        Ok(beyond.abs() / deviation.f_double_value(&[])?)
    };
    pixels.into_iter().map(far).sum()
}

/// Returns the image rows, normalised to a mean of 0 and a standard deviation of about 1.
#[profiled]
pub(crate) fn normalized(images: &Tensor, row_by_row: bool) -> TrainResult<Tensor> {
    let rows = images.f_view([-1, images.size()[3]])?;
    if !row_by_row {
        return normalized_rows(&rows);
    }
    let rows = (0..rows.size()[0]).map(|row| normalized_rows(&rows.f_narrow(0, row, 1)?));
    Ok(Tensor::f_cat(&rows.collect::<TrainResult<Vec<_>>>()?, 0)?)
}

fn normalized_rows(rows: &Tensor) -> TrainResult<Tensor> {
    let mean = rows.f_mean_dim(1, true, Kind::Float)?;
    let deviation = rows.f_std_dim(1, true, true)?.f_add_scalar(0.1)?;
    Ok(rows.f_sub(&mean)?.f_div(&deviation)?)
}
