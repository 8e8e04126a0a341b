//! Random variations of the digits, which make the preparation of a batch expensive.

use std::sync::Arc;

use candle_digits::Batch;
use digits::{Batches, Digit, SIDE, SplitMix};
use mlprof_train::{EpochContext, Result};

use crate::background::BatchSource;

/// Maximum rotation of a digit in radians.
const MOST_ROTATION: f32 = 0.2;
/// Maximum shift of a digit in pixels.
const MOST_SHIFT: f32 = 0.6;
/// Range of the blur radius, in pixels to each side.
const BLUR: std::ops::Range<f32> = 0.0..0.4;

/// Batches of randomly rotated, shifted and blurred digits, in a new order in each epoch. Epochs
/// with the same seed and number are bit-identical, regardless of the preparing threads.
#[derive(Debug)]
pub struct AugmentedDigits {
    digits: Arc<[Digit]>,
    batch_size: usize,
    /// Number of rays per side of a pixel.
    rays: usize,
}

/// The recipe of one batch.
#[derive(Debug)]
pub struct AugmentJob {
    digits: Vec<Digit>,
    seed: u64,
}

impl AugmentedDigits {
    /// Creates the source. Each pixel is the mean over `rays`² points of the original, so larger
    /// values are smoother and slower.
    pub fn new(digits: Vec<Digit>, batch_size: usize, rays: usize) -> Self {
        Self { digits: digits.into(), batch_size, rays: rays.max(1) }
    }
}

impl BatchSource for AugmentedDigits {
    type Job = AugmentJob;
    type Batch = Batch;

    fn jobs(&self, epoch: &EpochContext) -> Vec<AugmentJob> {
        let mut seeds = SplitMix::new(epoch.seed ^ (epoch.epoch as u64).rotate_left(32));
        Batches::shuffled(self.digits.clone(), self.batch_size, epoch.into())
            .map(|digits| AugmentJob { digits, seed: seeds.next_u64() })
            .collect()
    }

    fn prepare(&self, job: AugmentJob) -> Result<Batch> {
        let mut random = SplitMix::new(job.seed);
        let changed = |digit: &Digit| Digit {
            pixels: Change::random(&mut random).of(&digit.pixels, self.rays),
            class: digit.class,
        };
        Ok(Batch::new(&job.digits.iter().map(changed).collect::<Vec<_>>())?)
    }
}

/// The change of one digit.
struct Change {
    sine: f32,
    cosine: f32,
    shift: (f32, f32),
    /// Blur radius, in pixels to each side.
    blur: f32,
}

impl Change {
    fn random(random: &mut SplitMix) -> Self {
        let angle = between(random, -MOST_ROTATION..MOST_ROTATION);
        let mut shift = || between(random, -MOST_SHIFT..MOST_SHIFT);
        let shift = (shift(), shift());
        let (sine, cosine) = angle.sin_cos();
        Self { sine, cosine, shift, blur: between(random, BLUR) }
    }

    /// Returns the changed image.
    fn of(&self, pixels: &[f32; SIDE * SIDE], rays: usize) -> [f32; SIDE * SIDE] {
        std::array::from_fn(|index| self.pixel(pixels, (index % SIDE, index / SIDE), rays))
    }

    /// Returns the mean over points around a pixel's centre within the blur radius.
    fn pixel(
        &self,
        pixels: &[f32; SIDE * SIDE],
        (column, row): (usize, usize),
        rays: usize,
    ) -> f32 {
        let spread = 2.0 * self.blur;
        let offset = |ray: usize| ((ray as f32 + 0.5) / rays as f32 - 0.5) * spread;
        let mut sum = 0.0;
        for down in 0..rays {
            for right in 0..rays {
                let x = column as f32 + offset(right);
                let y = row as f32 + offset(down);
                sum += self.original(pixels, x, y);
            }
        }
        sum / (rays * rays) as f32
    }

    /// Returns the value of the original at the point that is mapped to `x`, `y`.
    fn original(&self, pixels: &[f32; SIDE * SIDE], x: f32, y: f32) -> f32 {
        let middle = (SIDE - 1) as f32 / 2.0;
        let (x, y) = (x - middle - self.shift.0, y - middle - self.shift.1);
        let from_x = self.cosine * x + self.sine * y + middle;
        let from_y = self.cosine * y - self.sine * x + middle;
        bilinear(pixels, from_x, from_y)
    }
}

/// Interpolates between the four pixels around a point. Outside the image, pixels are white.
fn bilinear(pixels: &[f32; SIDE * SIDE], x: f32, y: f32) -> f32 {
    let at = |column: f32, row: f32| {
        let is_inside = |place: f32| (0.0..SIDE as f32).contains(&place);
        let inside = is_inside(column) && is_inside(row);
        if inside { pixels[row as usize * SIDE + column as usize] } else { 0.0 }
    };
    let (left, top) = (x.floor(), y.floor());
    let (right_share, lower_share) = (x - left, y - top);
    let upper = at(left, top) * (1.0 - right_share) + at(left + 1.0, top) * right_share;
    let lower = at(left, top + 1.0) * (1.0 - right_share) + at(left + 1.0, top + 1.0) * right_share;
    upper * (1.0 - lower_share) + lower * lower_share
}

fn between(random: &mut SplitMix, range: std::ops::Range<f32>) -> f32 {
    // The upper 24 bits are used, because an f32 represents exactly that many.
    let share = (random.next_u64() >> 40) as f32 / (1u32 << 24) as f32;
    range.start + share * (range.end - range.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an image with a single dark pixel.
    fn dot(column: usize, row: usize) -> [f32; SIDE * SIDE] {
        let mut pixels = [0.0; SIDE * SIDE];
        pixels[row * SIDE + column] = 1.0;
        pixels
    }

    const UNCHANGED: Change = Change { sine: 0.0, cosine: 1.0, shift: (0.0, 0.0), blur: 0.0 };

    #[test]
    fn one_ray_and_no_change_give_the_original() {
        assert_eq!(UNCHANGED.of(&dot(2, 5), 1), dot(2, 5));
    }

    #[test]
    fn a_digit_is_moved_and_turned() {
        let moved = Change { shift: (1.0, -2.0), ..UNCHANGED };
        assert_eq!(moved.of(&dot(2, 5), 1), dot(3, 3));
        // A quarter turn around the centre maps a column to a row.
        let turned = Change { sine: 1.0, cosine: 0.0, ..UNCHANGED };
        assert_eq!(turned.of(&dot(2, 5), 1), dot(2, 2));
    }

    #[test]
    fn blur_spreads_ink_and_keeps_most_of_it() {
        let blurred = Change { blur: 0.4, ..UNCHANGED }.of(&dot(3, 3), 16);
        let ink: f32 = blurred.iter().sum();
        assert!((ink - 1.0).abs() < 0.01, "{ink}");
        assert!(blurred[3 * SIDE + 3] < 0.7 && blurred[3 * SIDE + 4] > 0.05, "{blurred:?}");
    }

    #[test]
    fn a_job_gives_the_same_batch_whenever_it_is_done() {
        let digits = digits::digits().expect("the data is built in");
        let source = AugmentedDigits::new(digits[..8].to_vec(), 8, 2);
        let job = |seed| AugmentJob { digits: digits[..8].to_vec(), seed };
        let images = |seed| {
            let batch = source.prepare(job(seed)).expect("prepared");
            assert_eq!(batch.classes.dims(), [8]);
            batch.images.flatten_all().and_then(|flat| flat.to_vec1::<f32>()).expect("numbers")
        };
        assert_eq!(images(1), images(1));
        assert_ne!(images(1), images(2));
    }
}
