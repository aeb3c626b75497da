//! Stand-in for a program that is built without a profiler.

/// Source files of the functions of a stack.
pub(super) type Stack = Vec<String>;

/// Samples nothing.
///
/// # Errors
/// Always.
pub(super) fn sample(
    _work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<(Stack, u64)>> {
    anyhow::bail!(crate::chat::NO_PROFILER)
}
