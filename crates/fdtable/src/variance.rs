//! Variance of the generic types: claims that the compiler checks. There is no code here;
//! `variance.rs` of `fdtable-objects` has the same claims about the types below these, and the
//! reasons.

/// Builds one test.
macro_rules! test {
    ($header:literal, $type:literal, $from:literal => $to:literal) => {
        concat!(
            "```",
            $header,
            "\n",
            "# #![allow(unused_imports, dead_code)]\n",
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
    // Files are opened and closed by a shared reference.
    Files: "fdtable::Files<T>",
    PrivateFiles: "fdtable::PrivateFiles<T>",
    SuperBlock: "fdtable::SuperBlock<T>",
    // Types that borrow one of these.
    Reservation: "fdtable::Reservation<'static, T>",
    Reservations: "fdtable::Reservations<'static, T>",
    Block: "fdtable::Block<'static, T>",
    WantWrite: "fdtable::WantWrite<'static, T>",
    // It only gives out references, and has the variance of a table's leaf, which it contains.
    ClosedFiles: "fdtable::ClosedFiles<T>",
}

covariant! {
    // References to a file that was made with them: shared, and never replaced.
    FileRef: "fdtable::FileRef<T>",
    WeakFile: "fdtable::WeakFile<T>",
    ClosedFile: "fdtable::ClosedFile<T>",
    BorrowedFile: "fdtable::BorrowedFile<'static, T>",
    // It owns an object that is no file yet.
    FileBuilder: "fdtable::FileBuilder<T>",
}
