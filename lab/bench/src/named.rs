//! Enums whose variants have names in reports.

/// Declares an enum, with a list of its variants and their names.
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $Enum:ident {
        $($(#[$doc:meta])* $Variant:ident = $name:expr,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $Enum {
            $($(#[$doc])* $Variant,)+
        }

        impl $Enum {
            /// Every one, in the order of reports.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

            /// Returns the name in reports.
            $vis fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)+
                }
            }
        }
    };
}
