//! Claims about the variance of generic types of this crate and of those below, checked by the
//! compiler. There is no code here.
//!
//! `Wide` accepts a borrow of any length and `Narrow` only one of `'static`, so a `Wide` does for a
//! `Narrow`. Both are `'static`: a bound of that kind does not keep one from being seen as the
//! other.
//!
//! - A type that takes values by a shared reference and returns them is *invariant*. Through a
//!   covariant view a `Narrow` could be stored that the owner takes out as a `Wide`, and calls with
//!   a borrow that ends.
//! - A type may be *covariant*, like `Box` and `Arc`, if its value is set when it is made, and it
//!   only returns shared borrows of it. Other code that knows the value, such as a release hook or
//!   the callback that drops it, keeps the type that it was made with.
//!
//! Each claim of the first kind is three tests that differ in one type: a conversion to the same
//! type compiles, and neither of the other two does.

/// The code before each test.
macro_rules! test {
    ($header:literal, $type:literal, $from:literal => $to:literal) => {
        concat!(
            "```",
            $header,
            "\n",
            "# #![allow(unused_imports, dead_code)]\n",
            "# use fdtable_objects::radix::leaf::LeafState;\n",
            "# struct State<F>(Option<F>);\n",
            "# impl<F> Default for State<F> { fn default() -> Self { Self(None) } }\n",
            "# impl<F: Copy + Send + Sync + 'static> LeafState for State<F> {\n",
            "#     fn copy(&self) -> Self { Self(self.0) }\n",
            "#     fn copy_first(&self) -> Self { self.copy() }\n",
            "# }\n",
            "type Wide = for<'a> fn(&'a u8);\n",
            "type Narrow = fn(&'static u8);\n",
            "type Of<T> = ",
            $type,
            ";\n",
            "fn convert(it: Of<",
            $from,
            ">) -> Of<",
            $to,
            "> { it }\n",
            "```"
        )
    };
}

macro_rules! invariant {
    ($($name:ident: $type:literal,)*) => {
        mod invariant {
            $(
                #[doc = test!("", $type, "Wide" => "Wide")]
                #[doc = test!("compile_fail,E0308", $type, "Wide" => "Narrow")]
                #[doc = test!("compile_fail,E0308", $type, "Narrow" => "Wide")]
                struct $name;
            )*
        }
    };
}

macro_rules! covariant {
    ($($name:ident: $type:literal,)*) => {
        mod covariant {
            $(
                #[doc = test!("", $type, "Wide" => "Narrow")]
                #[doc = test!("compile_fail,E0308", $type, "Narrow" => "Wide")]
                struct $name;
            )*
        }
    };
}

invariant! {
    // Objects are exchanged by a shared reference.
    SlotMap: "fdtable_objects::slot_map::SlotMap<T>",
    PerCpuList: "fdtable_objects::percpu_list::PerCpuList<T>",
    PerCpuListIter: "fdtable_objects::percpu_list::Iter<'static, T>",
    PerCpuListWriting: "fdtable_objects::percpu_list::Writing<'static, T>",
    // Values are inserted by a shared reference.
    Cache: "fdtable_slab::Cache<T>",
    // The data of a lock is changed through a shared reference.
    Mutex: "fdtable_sync::platform::Mutex<T>",
    MutexGuard: "fdtable_sync::platform::MutexGuard<'static, T>",
    SpinLock: "fdtable_sync::spin::SpinLock<T>",
    SpinGuard: "fdtable_sync::spin::SpinGuard<'static, T>",
    LgLock: "fdtable_sync::lglock::LgLock<T>",
    GlobalGuard: "fdtable_sync::lglock::GlobalGuard<'static, T>",
    // The value is put in through a shared reference.
    OnceBox: "fdtable_sync::fallible::OnceBox<T>",
    // The objects of a tree, the state of its leaves, and the data that its lock guards.
    TreeObjects: "fdtable_objects::radix::Tree<T, State<u8>, u8>",
    TreeStates: "fdtable_objects::radix::Tree<u8, State<T>, u8>",
    TreeData: "fdtable_objects::radix::Tree<u8, State<u8>, T>",
    ReadGuardObjects: "fdtable_objects::radix::ReadGuard<'static, T, State<u8>, u8>",
    ReadGuardStates: "fdtable_objects::radix::ReadGuard<'static, u8, State<T>, u8>",
    ReadGuardData: "fdtable_objects::radix::ReadGuard<'static, u8, State<u8>, T>",
    NearLeafObjects: "fdtable_objects::radix::NearLeaf<'static, T, State<u8>>",
    NearLeafStates: "fdtable_objects::radix::NearLeaf<'static, u8, State<T>>",
    WriteGuardObjects: "fdtable_objects::radix::WriteGuard<'static, T, State<u8>, u8>",
    WriteGuardStates: "fdtable_objects::radix::WriteGuard<'static, u8, State<T>, u8>",
    WriteGuardData: "fdtable_objects::radix::WriteGuard<'static, u8, State<u8>, T>",
    LeafObjects: "fdtable_objects::radix::leaf::Leaf<T, State<u8>>",
    LeafStates: "fdtable_objects::radix::leaf::Leaf<u8, State<T>>",
    LeafRefObjects: "fdtable_objects::radix::leaf::LeafRef<'static, T, State<u8>>",
    LeafRefStates: "fdtable_objects::radix::leaf::LeafRef<'static, u8, State<T>>",
    LeafGuardObjects: "fdtable_objects::radix::leaf::LeafGuard<'static, T, State<u8>>",
    LeafGuardStates: "fdtable_objects::radix::leaf::LeafGuard<'static, u8, State<T>>",
    // A leaf that was removed from a tree. It only returns references, and is as variant as its
    // leaf.
    RetiredObjects: "fdtable_objects::radix::Retired<T, State<u8>>",
    RetiredStates: "fdtable_objects::radix::Retired<u8, State<T>>",
}

covariant! {
    // References to an object that was made with them: shared, and never replaced.
    Ref: "fdtable_objects::object::Ref<T>",
    SlotRef: "fdtable_objects::object::SlotRef<T>",
    Weak: "fdtable_objects::object::Weak<T>",
    Borrowed: "fdtable_objects::object::Borrowed<'static, T>",
    SlabArc: "fdtable_slab::SlabArc<T>",
    SlabWeak: "fdtable_slab::SlabWeak<T>",
    // Values with one owner. The memory of a freed object has no type.
    Object: "fdtable_slab::Object<'static, T>",
    PerCpu: "fdtable_sync::percpu::PerCpu<T>",
}
