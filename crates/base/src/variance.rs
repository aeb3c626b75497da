//! Claims about the variance of generic types, checked by the compiler. There is no code here.
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
            "# use fdtable_base::{fallible::OutOfMemory, leaf::LeafState};\n",
            "# struct State<F>(Option<F>);\n",
            "# impl<F> Default for State<F> { fn default() -> Self { Self(None) } }\n",
            "# impl<F: Copy + Send + Sync + 'static> LeafState for State<F> {\n",
            "#     fn try_copy(&self) -> Result<Self, OutOfMemory> { Ok(Self(self.0)) }\n",
            "#     fn try_copy_first(&self) -> Result<Self, OutOfMemory> { self.try_copy() }\n",
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
    Slot: "fdtable_base::slot::Slot<T>",
    Pool: "fdtable_base::pool::Pool<T>",
    PerCpuList: "fdtable_base::percpu_list::PerCpuList<T>",
    PerCpuListIter: "fdtable_base::percpu_list::Iter<'static, T>",
    PerCpuListWriting: "fdtable_base::percpu_list::Writing<'static, T>",
    // Values are inserted by a shared reference.
    Cache: "fdtable_base::slab::Cache<T>",
    // An object stays as its last user left it, for the next one.
    ConstructedCache: "fdtable_base::slab::ConstructedCache<T>",
    Constructed: "fdtable_base::slab::Constructed<'static, T>",
    // The data of a lock is changed through a shared reference.
    Mutex: "fdtable_base::sync::Mutex<T>",
    MutexGuard: "fdtable_base::sync::MutexGuard<'static, T>",
    LgLock: "fdtable_base::lglock::LgLock<T>",
    LocalGuard: "fdtable_base::lglock::LocalGuard<'static, T>",
    GlobalGuard: "fdtable_base::lglock::GlobalGuard<'static, T>",
    // The objects of a tree, the state of its leaves, and the data that its lock guards.
    TreeObjects: "fdtable_base::tree::Tree<T, State<u8>, u8>",
    TreeStates: "fdtable_base::tree::Tree<u8, State<T>, u8>",
    TreeData: "fdtable_base::tree::Tree<u8, State<u8>, T>",
    EntryObjects: "fdtable_base::tree::Entry<'static, T, State<u8>, u8>",
    EntryStates: "fdtable_base::tree::Entry<'static, u8, State<T>, u8>",
    EntryData: "fdtable_base::tree::Entry<'static, u8, State<u8>, T>",
    FoundObjects: "fdtable_base::tree::Found<'static, T, State<u8>, u8>",
    FoundStates: "fdtable_base::tree::Found<'static, u8, State<T>, u8>",
    FoundData: "fdtable_base::tree::Found<'static, u8, State<u8>, T>",
    StructureObjects: "fdtable_base::tree::Structure<'static, T, State<u8>, u8>",
    StructureStates: "fdtable_base::tree::Structure<'static, u8, State<T>, u8>",
    StructureData: "fdtable_base::tree::Structure<'static, u8, State<u8>, T>",
    LeafObjects: "fdtable_base::leaf::Leaf<T, State<u8>>",
    LeafStates: "fdtable_base::leaf::Leaf<u8, State<T>>",
    LeafRefObjects: "fdtable_base::leaf::LeafRef<'static, T, State<u8>>",
    LeafRefStates: "fdtable_base::leaf::LeafRef<'static, u8, State<T>>",
    LeafGuardObjects: "fdtable_base::leaf::LeafGuard<'static, T, State<u8>>",
    LeafGuardStates: "fdtable_base::leaf::LeafGuard<'static, u8, State<T>>",
    // A leaf that was removed from a tree. It only returns references, and is as variant as its
    // leaf.
    RetiredObjects: "fdtable_base::tree::Retired<T, State<u8>>",
    RetiredStates: "fdtable_base::tree::Retired<u8, State<T>>",
}

covariant! {
    // References to an object that was made with them: shared, and never replaced.
    Ref: "fdtable_base::counted::Ref<T>",
    Borrowed: "fdtable_base::counted::Borrowed<'static, T>",
    SlabArc: "fdtable_base::slab::SlabArc<T>",
    SlabWeak: "fdtable_base::slab::SlabWeak<T>",
    // Values with one owner. The memory of a freed object has no type.
    Object: "fdtable_base::slab::Object<'static, T>",
    PerCpu: "fdtable_base::percpu::PerCpu<T>",
}
