//! Seals of a file.

bitflags::bitflags! {
    /// Changes that can never happen to a file again, with the values of Linux.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Seals: u32 {
        /// No seal can be added. In Linux: `F_SEAL_SEAL`.
        const SEAL = 0x01;
        /// The file cannot become shorter. In Linux: `F_SEAL_SHRINK`.
        const SHRINK = 0x02;
        /// The file cannot become longer. In Linux: `F_SEAL_GROW`.
        const GROW = 0x04;
        /// The bytes cannot change. In Linux: `F_SEAL_WRITE`.
        const WRITE = 0x08;
        /// The bytes can change only through mappings that exist already.
        /// In Linux: `F_SEAL_FUTURE_WRITE`.
        const FUTURE_WRITE = 0x10;
        /// The permissions to execute cannot change. If there are any, [`CONTENTS`](Self::CONTENTS)
        /// are added too. In Linux: `F_SEAL_EXEC`.
        const EXEC = 0x20;
    }
}

impl Seals {
    /// The seals on the bytes and the length.
    pub const CONTENTS: Self = Self::SHRINK
        .union(Self::GROW)
        .union(Self::WRITE)
        .union(Self::FUTURE_WRITE);
}
