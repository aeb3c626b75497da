//! Runs the program of `tests/c_table/misuse.c`: a library with checks ends a process that misuses
//! a table.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::compile::with_table;

/// Each misuse of the program, and the sentence with which the process ends.
const MISUSES: &[(&str, &str)] = &[
    ("put_twice", "fdt_file_put: this reference was put before"),
    (
        "put_after_another_reference",
        "fdt_file_put: this reference was put before",
    ),
    (
        "object_after_put",
        "fdt_file_object: this reference was put before",
    ),
    (
        "clone_after_put",
        "fdt_file_clone: this reference was put before",
    ),
    (
        "open_after_put",
        "fdt_table_open_file: this reference was put before",
    ),
    (
        "displaced_put_twice",
        "fdt_file_put: this reference was put before",
    ),
    (
        "put_of_a_table",
        "fdt_file_put: this is a table, not a reference",
    ),
    (
        "put_of_an_object",
        "fdt_file_put: this is not a reference of the library",
    ),
    (
        "put_of_a_weak_reference_twice",
        "fdt_weak_put: this weak reference was put before",
    ),
    (
        "upgrade_of_a_reference",
        "fdt_weak_upgrade: this is a reference, not a weak reference",
    ),
    (
        "install_twice",
        "fdt_table_install: this reservation was installed or cancelled before",
    ),
    (
        "install_of_a_copy",
        "fdt_table_install_data: this reservation was installed or cancelled before",
    ),
    (
        "install_after_cancel",
        "fdt_table_install: this reservation was installed or cancelled before",
    ),
    (
        "cancel_of_a_copy",
        "fdt_table_cancel: this reservation was installed or cancelled before",
    ),
    (
        "install_in_another_table",
        "fdt_table_install: this reservation is of another table",
    ),
    (
        "install_in_a_child",
        "fdt_table_install_data: this reservation is of another table",
    ),
    (
        "install_of_nothing",
        "fdt_table_install: this is not a reservation of the library",
    ),
    (
        "cancel_after_the_table",
        "fdt_table_cancel: the table of this reservation was freed before",
    ),
    (
        "unlock_twice",
        "fdt_read_unlock: this section was ended before",
    ),
    (
        "unlock_on_another_thread",
        "fdt_read_unlock: this section is of another thread",
    ),
    (
        "unlock_out_of_order",
        "fdt_read_unlock: this section has another one inside, which ends first",
    ),
    (
        "unlock_of_nothing",
        "fdt_read_unlock: this is not a section of the library",
    ),
    (
        "end_of_a_thread_in_a_section",
        "fdt_read_lock: the thread has ended inside this section",
    ),
    (
        "look_up_at_the_end",
        "fdt_table_free: this table was freed before",
    ),
    (
        "borrow_after_unlock",
        "fdt_table_borrow: this section was ended before",
    ),
    (
        "borrow_on_another_thread",
        "fdt_table_borrow: this section is of another thread",
    ),
    ("free_twice", "fdt_table_free: this table was freed before"),
    (
        "get_after_free",
        "fdt_table_get: this table was freed before",
    ),
    (
        "replace_after_free",
        "fdt_table_replace: this table was freed before",
    ),
    (
        "get_of_a_private_table",
        "fdt_table_get: this is a private table, not a table",
    ),
    (
        "private_free_twice",
        "fdt_private_free: this private table was freed before",
    ),
    (
        "private_open_after_free",
        "fdt_private_open: this private table was freed before",
    ),
    (
        "put_twice_in_release",
        "fdt_file_put: this reference was put before",
    ),
];

#[test]
fn each_misuse_of_a_table_ends_the_process_with_a_sentence() {
    let program = with_table("misuse", &[]).unwrap_or_else(|said| panic!("{said}"));
    let mut wrong = Vec::new();
    for (misuse, sentence) in MISUSES {
        let run = Command::new(&program).arg(misuse).output().unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        let is_right = said == format!("fdtable: {sentence}\n");
        if !is_right || run.status.signal() != Some(libc::SIGABRT) {
            wrong.push(format!("{misuse}: {}, {said:?}", run.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let run = Command::new(&program)
        .arg("unlock_in_a_destructor")
        .output()
        .unwrap();
    assert!(run.status.success(), "it is no misuse: {run:?}");
}
