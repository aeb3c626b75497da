//! Objects with hooks that are closures without types, for tests.

use crate::object::{Late, Prompt, Rcu, Ref, ReleaseReason, try_make};
use crate::percpu_list::{Access, PerCpuList, Refused};
use fdtable_sync::fallible::OutOfMemory;

impl<T: Send + Sync + 'static> Ref<T> {
    /// Makes a prompt object.
    pub(crate) fn try_with_ends(
        value: T,
        hook: impl Fn(&T, ReleaseReason) + Send + Sync + 'static,
    ) -> Result<Self, OutOfMemory> {
        try_make::<Prompt, T, _>(value, hook)
    }
}

impl<T: Send + Sync + 'static> Ref<Rcu<T>> {
    /// Makes a late object.
    pub(crate) fn try_with_ends_rcu(
        value: T,
        hook: impl Fn(&T, ReleaseReason) + Send + Sync + 'static,
    ) -> Result<Self, OutOfMemory> {
        try_make::<Late, T, _>(value, hook)
    }
}

impl<T: ?Sized + 'static> Ref<T> {
    /// Makes a prompt object of one type that is known by another.
    #[cfg(not(loom))]
    pub(crate) fn try_coerced_with_ends<S: Send + Sync + 'static>(
        value: S,
        coerce: fn(&S) -> &T,
        hook: impl Fn(&S, ReleaseReason) + Send + Sync + 'static,
    ) -> Result<Self, OutOfMemory> {
        crate::object::try_make_dyn::<Prompt, T, S, _>(value, coerce, hook)
    }
}

impl<T: Send + Sync + 'static> PerCpuList<T> {
    /// Makes a member.
    pub(crate) fn add(
        &self,
        value: T,
        access: Access,
        hook: impl Fn(&T, ReleaseReason) + Send + Sync + 'static,
    ) -> Result<Ref<T>, Refused> {
        self.try_add::<Prompt, T, _>(value, access, hook)
    }
}

#[cfg(not(loom))]
impl<T: ?Sized + 'static> PerCpuList<T> {
    /// Makes a member of one type that the list knows by another.
    pub(crate) fn add_coerced<S: Send + Sync + 'static>(
        &self,
        value: S,
        access: Access,
        coerce: fn(&S) -> &T,
        hook: impl Fn(&S, ReleaseReason) + Send + Sync + 'static,
    ) -> Result<Ref<T>, Refused> {
        self.try_add_coerced::<Prompt, T, S, _>(value, access, coerce, hook)
    }
}
