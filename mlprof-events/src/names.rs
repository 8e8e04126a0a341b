//! Action names shared by the hooks of several frameworks, and functions that build names, so that
//! rows look the same everywhere. The names follow Lightning.

pub use crate::communication::{is_communication_kernel, waits_for_other_ranks};

/// All training batches of one epoch, including the time to fetch them.
pub const RUN_TRAINING_EPOCH: &str = "run_training_epoch";
/// One training batch after it was fetched.
pub const RUN_TRAINING_BATCH: &str = "run_training_batch";
/// A trainer that waits for a training batch.
pub const TRAIN_DATALOADER_NEXT: &str = "[_TrainingEpochLoop].train_dataloader_next";
/// A training loop of the program's own that waits for a batch, under its usual name.
pub const OWN_TRAIN_DATALOADER_NEXT: &str = "train_dataloader_next";
/// A trainer that waits for a validation batch.
pub const VAL_NEXT: &str = "[_EvaluationLoop].val_next";
/// A trainer that waits for a test batch.
pub const TEST_NEXT: &str = "[_EvaluationLoop].test_next";
/// Returns `true` if an action with this name is a loop that waits for its next batch, in any
/// stage.
///
/// ```
/// use mlprof_core::names;
/// assert!(names::is_waiting_for_data(names::TRAIN_DATALOADER_NEXT));
/// assert!(!names::is_waiting_for_data("val_dataloader"));
/// ```
pub fn is_waiting_for_data(name: &str) -> bool {
    let ends = [OWN_TRAIN_DATALOADER_NEXT, ".val_next", ".test_next", ".predict_next"];
    ends.iter().any(|end| name.ends_with(end))
}

/// The backward pass, from the loss to the gradients.
pub const BACKWARD: &str = "backward";
/// Lightning's hook with this name: forward, backward, clipping and the optimizer's update for one
/// batch.
///
/// The update alone is [`OPTIMIZER_UPDATE`].
pub const OPTIMIZER_STEP: &str = "optimizer_step";
/// The optimizer's own update of the parameters, in trainers and in hand-written loops of every
/// framework.
///
/// PyTorch names this scope `Optimizer.step#AdamW.step`. The optimizers of burn and tch do not
/// expose their type, so mlprof's name has no suffix.
pub const OPTIMIZER_UPDATE: &str = "Optimizer.step";

/// Returns `true` if an action with this name is the optimizer's own update, as named by mlprof or
/// PyTorch.
///
/// ```
/// use mlprof_core::names;
/// assert!(names::is_optimizer_update(names::OPTIMIZER_UPDATE));
/// assert!(names::is_optimizer_update("Optimizer.step#AdamW.step"));
/// assert!(!names::is_optimizer_update("[LightningModule]Net.optimizer_step"));
/// ```
pub fn is_optimizer_update(name: &str) -> bool {
    let rest = name.strip_prefix(OPTIMIZER_UPDATE);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// The optimizer clears the gradients.
pub const OPTIMIZER_ZERO_GRAD: &str = "optimizer_zero_grad";
/// Gradient clipping.
pub const CONFIGURE_GRADIENT_CLIPPING: &str = "configure_gradient_clipping";
/// A step of the learning rate schedule.
pub const LR_SCHEDULER_STEP: &str = "lr_scheduler_step";
/// Saving a checkpoint.
pub const SAVE_CHECKPOINT: &str = "save_checkpoint";

/// Returns `[{kind}]{type_name}.{hook}`, the name of a method of a replaceable component.
///
/// ```
/// use mlprof_core::names::hook;
/// let name = hook("Callback", "ProgressBar", "on_fit_start");
/// assert_eq!(name, "[Callback]ProgressBar.on_fit_start");
/// ```
pub fn hook(kind: &str, type_name: &str, hook: &str) -> String {
    format!("[{kind}]{type_name}.{hook}")
}

/// Returns `[module]{type_name}: {path}`, the name of a layer at its path in the model. The root of
/// a model has no path.
///
/// ```
/// use mlprof_core::names::module;
/// assert_eq!(module("Linear", "encoder.head"), "[module]Linear: encoder.head");
/// assert_eq!(module("Sequential", ""), "[module]Sequential");
/// ```
pub fn module(type_name: &str, path: &str) -> String {
    match path {
        "" => format!("[module]{type_name}"),
        path => format!("[module]{type_name}: {path}"),
    }
}

/// Returns a type's name without its path and generic arguments.
///
/// ```
/// use mlprof_core::names::short_type_name;
///
/// struct Net<B>(B);
/// assert_eq!(short_type_name::<Net<Vec<u8>>>(), "Net");
/// ```
///
/// Closures have no name of their own: all of them are called `closure`.
pub fn short_type_name<T: ?Sized>() -> &'static str {
    short_name_of(std::any::type_name::<T>())
}

/// Returns the last part of a type's full name, without its generic arguments.
pub fn short_name_of(full_name: &str) -> &str {
    match last_segment(full_name) {
        "{{closure}}" => "closure",
        name => name,
    }
}

/// Returns the last part of a path, up to its generic arguments. Parts may contain paths in angle
/// brackets, as in `<Net as Forward>::run::{{closure}}`.
fn last_segment(path: &str) -> &str {
    let (mut depth, mut start) = (0_usize, 0);
    for (position, byte) in path.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            // A `>` after `-` is the end of an arrow, `fn() -> T`, and not a closing bracket.
            b'>' if !path[..position].ends_with('-') => depth = depth.saturating_sub(1),
            b':' if depth == 0 => start = position + 1,
            _ => {}
        }
    }
    let segment = &path[start..];
    match segment.find('<') {
        Some(end) if end > 0 => &segment[..end],
        _ => segment,
    }
}

#[cfg(test)]
mod tests {
    use super::last_segment;

    #[test]
    fn the_last_part_is_found_behind_paths_in_brackets() {
        assert_eq!(last_segment("u8"), "u8");
        assert_eq!(last_segment("model::Net<alloc::vec::Vec<u8>>"), "Net");
        assert_eq!(last_segment("<model::Net as model::Forward>::run::{{closure}}"), "{{closure}}");
        assert_eq!(last_segment("a::Func<fn(b::C) -> d::E>"), "Func");
        assert_eq!(last_segment("<T>"), "<T>");
        assert_eq!(last_segment(""), "");
    }
}
