//! Mutations that leave out a check, a lock or a step: a table of texts to replace.
//!
//! Each is applied to a copy of the sources, built, and run with one model, which must fail. A text
//! that is not in the source, or is there more than once, is an error: the table follows the
//! source.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Outcome, judge, loom};
use crate::Result;
use crate::library::{self, CRATES, LockFile};
use crate::process::{Process, test_binaries};

/// A model is given this long; the longest takes a fifth of it on the source as it is.
const LIMIT: Duration = Duration::from_secs(180);

/// A mutation of the text of one file.
pub(super) struct Structural {
    pub(super) name: &'static str,
    /// The file, below `crates`.
    file: &'static str,
    /// The model that must fail: the folder of its crate, and its path there.
    pub(super) model: &'static str,
    /// Each text to replace, and what replaces it.
    changes: &'static [(&'static str, &'static str)],
}

/// A copy of the library in a workspace of its own.
pub(super) struct Copy {
    workspace: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Copies the sources into `directory`, and keeps what an earlier run has built there.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let copy = Self {
            workspace: directory.join("workspace"),
            target: directory.join("target"),
        };
        library::copy_to(&copy.workspace, LockFile::Copied)?;
        Ok(copy)
    }

    /// Builds the mutated source and runs the model.
    pub(super) fn try_out(&self, mutation: &Structural) -> Result<(Outcome, Duration)> {
        let path = self.workspace.join("crates").join(mutation.file);
        let original = fs::read_to_string(&path)?;
        fs::write(&path, mutation.apply(&original)?)?;
        let (package, model) = mutation.package_and_model()?;
        let binary = self.build(package);
        fs::write(&path, original)?;
        let binary = binary.map_err(|error| format!("{}: {error}", mutation.name))?;
        let run = Process::new(&binary).args(["--exact", model, "--nocapture"]);
        let start = Instant::now();
        let finished = run
            .env("RUST_BACKTRACE", "0")
            .limit(LIMIT)
            .quiet()
            .finish()?;
        if !finished.output.contains("running 1 test") {
            return Err(format!("{}: no model is called {}", mutation.name, mutation.model).into());
        }
        Ok((judge(&finished)?, start.elapsed()))
    }

    fn build(&self, package: &str) -> Result<PathBuf> {
        // Unused items of a mutated source do not matter.
        let build = loom(Process::cargo("test"), &self.target, "--allow warnings");
        let build = build
            .directory(&self.workspace)
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true");
        let binaries = test_binaries(build.words("--lib --package").arg(package))?;
        let [binary] = &binaries[..] else {
            return Err(format!("{} test binaries instead of one", binaries.len()).into());
        };
        Ok(binary.clone())
    }
}

impl Structural {
    /// The package of the model, and its path there.
    fn package_and_model(&self) -> Result<(&'static str, &'static str)> {
        let found = CRATES.iter().find_map(|&(folder, package)| {
            let path = self.model.strip_prefix(folder)?.strip_prefix("::")?;
            Some((package, path))
        });
        Ok(found.ok_or_else(|| format!("{}: of no crate", self.model))?)
    }

    fn apply(&self, source: &str) -> Result<String> {
        let mut source = source.to_owned();
        for (old, new) in self.changes {
            let times = source.matches(old).count();
            if times != 1 {
                let Self { name, file, .. } = self;
                return Err(format!("{name}: {times} times in {file}, not once: {old}").into());
            }
            source = source.replace(old, new);
        }
        Ok(source)
    }
}

/// The table.
pub(super) const TABLE: &[Structural] = &[
    // The fences of read-side sections and grace periods.
    Structural {
        name: "plain-section-of-a-reader-that-fences",
        file: "sync/src/rcu/reader.rs",
        model: "sync::rcu::loom::a_grace_period_waits_for_a_section_without_membarrier",
        changes: &[(
            r"} else {
            NOT_PLAIN",
            r"} else {
            0",
        )],
    },
    Structural {
        name: "fences-of-a-grace-period",
        file: "sync/src/rcu/grace.rs",
        model: "sync::rcu::loom::a_grace_period_waits_for_a_section",
        changes: &[(r"fence_for_claimed();", "")],
    },
    // Records of readers.
    Structural {
        name: "look-at-the-plain-section",
        file: "sync/src/rcu/reader.rs",
        model: "sync::rcu::loom::a_grace_period_waits_for_a_section",
        changes: &[(r"is_past(&self.own.plain) && is_past", r"is_past")],
    },
    Structural {
        name: "look-at-the-counted-sections",
        file: "sync/src/rcu/reader.rs",
        model: "sync::rcu::loom::a_section_goes_on_when_the_one_around_it_ends",
        changes: &[(r"&& is_past(&self.own.counted)", "")],
    },
    Structural {
        name: "number-of-a-section-ignored",
        file: "sync/src/rcu/reader.rs",
        model: "sync::rcu::loom::a_grace_period_waits_for_a_section",
        changes: &[(r"number_of(word) == number", r"number_of(word) <= number")],
    },
    // Grace periods.
    Structural {
        name: "ticket-without-a-place",
        file: "sync/src/rcu/grace.rs",
        model: "sync::rcu::loom::updaters_share_a_grace_period",
        changes: &[(
            r"self.numbered.fetch_add(0, Release)",
            r"self.numbered.load(Acquire)",
        )],
    },
    Structural {
        name: "ticket-of-the-grace-period-under-way",
        file: "sync/src/rcu/grace.rs",
        model: "sync::rcu::loom::updaters_share_a_grace_period",
        changes: &[(
            r"(self.numbered.fetch_add(0, Release).wrapping_add(NUMBER))",
            r"(self.numbered.fetch_add(0, Release))",
        )],
    },
    // Callbacks.
    Structural {
        name: "list-without-a-look-at-its-ticket",
        file: "sync/src/rcu/callbacks.rs",
        model: "sync::rcu::loom::every_list_waits_for_its_own_grace_period",
        changes: &[(r"&& GRACE.is_over(self.ticket)", "")],
    },
    Structural {
        name: "two-invoke-a-queue",
        file: "sync/src/rcu/callbacks.rs",
        model: "sync::rcu::loom::a_barrier_is_not_misled_by_later_callbacks",
        changes: &[(r"self.invoking.is_some()", r"false")],
    },
    Structural {
        name: "chunk-that-counts-as-all",
        file: "sync/src/rcu/callbacks.rs",
        model: "sync::rcu::loom::a_barrier_waits_for_what_a_chunk_has_left",
        changes: &[(r"(weight - rest.weight)", r"weight")],
    },
    // The worker.
    Structural {
        name: "queues-noted-before-the-worker-watches",
        file: "sync/src/rcu/worker.rs",
        model: "sync::rcu::worker::loom::a_worker_that_parks_misses_no_call",
        changes: &[
            (
                r"                callbacks::note_due();
                return Next::Sleep;",
                r"                return Next::Sleep;",
            ),
            (
                r"let state = match self",
                r"callbacks::note_due();
        let state = match self",
            ),
        ],
    },
    Structural {
        name: "worker-that-parks-whatever-the-state",
        file: "sync/src/rcu/worker.rs",
        model: "sync::rcu::worker::loom::a_worker_that_parks_misses_no_call",
        changes: &[(
            r"                .compare_exchange(WATCHING, PARKED, Relaxed, Relaxed)
                .is_ok()",
            r"                .swap(PARKED, Relaxed)
                != ENDED",
        )],
    },
    Structural {
        name: "call-that-wakes-no-worker",
        file: "sync/src/rcu/worker.rs",
        model: "sync::rcu::worker::loom::a_worker_that_parks_misses_no_call",
        changes: &[(r"Ok(PARKED) => return self.bell.ring(),", "")],
    },
    Structural {
        name: "call-that-leaves-its-queue-to-the-last-note",
        file: "sync/src/rcu/worker.rs",
        model: "sync::rcu::worker::loom::of_two_calls_at_once_none_is_missed",
        changes: &[(r"if state < CALLED {", r"if state < WATCHING {")],
    },
    Structural {
        name: "worker-that-parks-behind-a-reader",
        file: "sync/src/rcu/worker.rs",
        model: "sync::rcu::worker::loom::a_worker_that_met_a_reader_does_not_park",
        changes: &[(
            r"if reached
            && self",
            r"if self",
        )],
    },
    // Reference counts.
    Structural {
        name: "revival-without-a-hold",
        file: "sync/src/refcount.rs",
        model: "objects::radix::loom::a_get_meets_the_last_put_of_a_holder",
        changes: &[
            (r"self.0.fetch_add(HOLD, Relaxed);", ""),
            (
                r"if self.0.fetch_sub(HOLD, Release) != HOLD_IN {
                return false;
            }",
                r"return false;",
            ),
        ],
    },
    // The big-reader lock.
    Structural {
        name: "light-fence-of-a-reader",
        file: "sync/src/rcu/reader.rs",
        model: "sync::brlock::loom::no_reader_in_many_sections_works_beside_a_writer",
        changes: &[(r"Self::fence(word);", "")],
    },
    Structural {
        name: "fence-of-a-reader-without-membarrier",
        file: "sync/src/rcu/reader.rs",
        model: "sync::brlock::loom::no_reader_in_many_sections_works_beside_a_writer_without_membarrier",
        changes: &[(r"Self::fence(word);", "")],
    },
    // The freezer.
    Structural {
        name: "fences-of-a-freeze",
        file: "sync/src/host_fork/freezer.rs",
        model: "sync::host_fork::freezer::loom::no_thread_is_inside_while_it_is_frozen",
        changes: &[(r"fence_for_claimed_of(process);", "")],
    },
    Structural {
        name: "turn-that-is-given-back-too-early",
        file: "sync/src/host_fork/freezer.rs",
        model: "sync::host_fork::freezer::loom::a_thaw_ends_no_other_freeze",
        changes: &[(
            r"// (T) Release: pairs with the acquire in (C).
        self.word.fetch_and(!FROZEN, Release);
        // Release: pairs with the acquire in (P).
        self.holder.store(0, Release);",
            r"self.holder.store(0, Release);
        self.word.fetch_and(!FROZEN, Release);",
        )],
    },
    Structural {
        name: "blocking-section-that-ends-without-a-look",
        file: "sync/src/host_fork/freezer.rs",
        model: "sync::host_fork::freezer::loom::a_blocking_section_ends_after_the_thaw",
        changes: &[(
            r"if !self.try_inside(word) {
            self.wait_inside(word);
        }",
            r"self.freezer().store(word | ADMITTED, Relaxed);",
        )],
    },
    Structural {
        name: "handler-that-takes-its-thread-for-admitted",
        file: "sync/src/host_fork/freezer.rs",
        model: "sync::host_fork::freezer::loom::a_handler_of_a_thread_that_was_not_let_in_looks_itself",
        changes: &[(r"if word & ADMITTED != 0 {", r"if word != 0 {")],
    },
    Structural {
        name: "inner-entry-that-ends-the-outer",
        file: "sync/src/host_fork/freezer.rs",
        model: "sync::host_fork::freezer::loom::an_inner_entry_ends_nothing",
        changes: &[(
            r"_ => self.freezer().store(word - LEVEL, Relaxed)",
            r"_ => self.freezer().store(0, Release)",
        )],
    },
    // The tree.
    Structural {
        name: "token-of-a-leaf-that-was-taken-out",
        file: "objects/src/radix/cow.rs",
        model: "objects::radix::loom::a_write_meets_a_removal",
        changes: &[(r"unsafe { leaf.head.set_owner(DETACHED) };", "")],
    },
    Structural {
        name: "share-without-excluding-readers",
        file: "objects/src/radix/share.rs",
        model: "objects::radix::loom::a_write_meets_a_share_of_its_leaf",
        changes: &[
            (r"tree.shared.lock.exclude_readers();", ""),
            (r"self.0.admit_readers();", ""),
        ],
    },
    Structural {
        name: "share-of-the-first-leaf-unlocked",
        file: "objects/src/radix/share.rs",
        model: "objects::radix::loom::a_write_in_the_first_leaf_meets_a_share",
        changes: &[(
            r"let guard = unsafe { self.tree.first.lock(0) };",
            r"let guard = &self.tree.first;",
        )],
    },
    Structural {
        name: "copy-that-is-not-counted",
        file: "objects/src/radix/cow.rs",
        model: "objects::radix::loom::two_trees_close_the_same_slot",
        changes: &[(r"unsafe { copy.count_children() };", "")],
    },
    Structural {
        name: "removed-leaf-that-is-freed-at-once",
        file: "objects/src/radix/node_head.rs",
        model: "objects::radix::loom::a_borrow_meets_a_removal",
        changes: &[(
            r"unsafe { rcu::call_later(rcu::Effect::FreesMemory, 1, rcu) };",
            r"unsafe { (rcu.as_ref().invoke())(rcu) };",
        )],
    },
    Structural {
        name: "moved-leaf-that-is-freed-at-once",
        file: "objects/src/radix/node_head.rs",
        model: "objects::radix::loom::what_is_moved_is_found",
        changes: &[(
            r"unsafe { rcu::call_later(rcu::Effect::FreesMemory, 1, rcu) };",
            r"unsafe { (rcu.as_ref().invoke())(rcu) };",
        )],
    },
    // The free hint.
    Structural {
        name: "hint-that-is-not-stale",
        file: "objects/src/free_hint.rs",
        model: "objects::free_hint::loom::a_look_meets_a_search",
        changes: &[(r"(hint | STALE) & !MARKED", r"hint & !MARKED")],
    },
    Structural {
        name: "hint-that-is-not-looked-at-again",
        file: "objects/src/free_hint.rs",
        model: "objects::free_hint::loom::a_look_meets_a_first_leaf_that_is_full_again",
        changes: &[(
            r"self.searched.hint.load(Relaxed) == hint.0",
            r"{
            let _ = hint;
            true
        }",
        )],
    },
    Structural {
        name: "report-without-a-mark",
        file: "objects/src/free_hint.rs",
        model: "objects::free_hint::loom::a_look_meets_a_search",
        changes: &[(r"self.mark();", "")],
    },
    Structural {
        name: "stale-hint-that-is-used",
        file: "objects/src/free_hint.rs",
        model: "objects::free_hint::loom::a_look_meets_a_search",
        changes: &[(r"hint.is_good().then_some(hint)", r"Some(hint)")],
    },
    Structural {
        name: "mark-that-a-search-takes-away",
        file: "objects/src/free_hint.rs",
        model: "objects::free_hint::loom::two_report_leaves_and_a_search_drains_the_lists",
        changes: &[(
            r"(hint & !(INDEX | STALE))",
            r"(hint & !(INDEX | STALE | MARKED))",
        )],
    },
    Structural {
        name: "report-that-hides-another",
        file: "objects/src/free_hint.rs",
        model: "objects::free_hint::loom::two_report_leaves_and_a_search_drains_the_lists",
        changes: &[(
            r"Err(now) => first = now,",
            r"Err(_) => {
                    local.freed.store(index as u32 + 1, Release);
                    break;
                }",
        )],
    },
    // The slot map.
    Structural {
        name: "slot-map-no-first-look",
        file: "objects/src/slot_map.rs",
        model: "objects::slot_map::loom::a_lookup_meets_the_opening_that_it_guessed",
        changes: &[(
            r"if entry.word.load(Acquire) != handle.generation",
            r"if false",
        )],
    },
    Structural {
        name: "slot-map-no-second-look",
        file: "objects/src/slot_map.rs",
        model: "objects::slot_map::loom::a_lookup_meets_a_removal_and_the_next_opening",
        changes: &[(
            r"if entry.word.load(Relaxed) != handle.generation",
            r"if false",
        )],
    },
    Structural {
        name: "slot-map-second-look-before-the-address",
        file: "objects/src/slot_map.rs",
        model: "objects::slot_map::loom::a_lookup_meets_a_removal_and_the_next_opening",
        changes: &[
            (
                r"let raw = NonNull::new(entry.raw.load(Acquire))?;",
                r"let second = entry.word.load(Relaxed);
        let raw = NonNull::new(entry.raw.load(Acquire))?;",
            ),
            (
                r"if entry.word.load(Relaxed) != handle.generation",
                r"if second != handle.generation",
            ),
        ],
    },
    Structural {
        name: "slot-map-removal-in-two-steps",
        file: "objects/src/slot_map.rs",
        model: "objects::slot_map::loom::one_of_two_removals_has_the_object",
        changes: &[(
            r".compare_exchange(old, new, Acquire, Relaxed)
            .ok()?;",
            r".load(Acquire)
            .eq(&old)
            .then(|| entry.word.store(new, Relaxed))?;",
        )],
    },
    Structural {
        name: "slot-map-list-without-its-lock",
        file: "objects/src/slot_map/free_list.rs",
        model: "objects::slot_map::loom::a_theft_meets_the_owner_of_the_list",
        changes: &[(
            r"compare_exchange(false, true, Acquire, Relaxed)",
            r"compare_exchange(false, false, Acquire, Relaxed)",
        )],
    },
    Structural {
        name: "slot-map-full-list-by-list",
        file: "objects/src/slot_map.rs",
        model: "objects::slot_map::loom::an_insertion_fails_only_if_the_map_was_full",
        changes: &[(
            r"AllLocked::new(&self.lists).pop(&self.segments)",
            r"self.lists.iter().find_map(|list| list.lock().pop(&self.segments))",
        )],
    },
    // Lists in parts.
    Structural {
        name: "global-lock-of-one-part",
        file: "sync/src/lglock.rs",
        model: "sync::lglock::loom::a_local_holder_and_a_global_one_do_not_meet",
        changes: &[(
            r"for part in self.parts.iter() {
            part.lock_raw();",
            r"for part in self.parts.iter().take(1) {
            part.lock_raw();",
        )],
    },
    Structural {
        name: "list-that-ends-before-its-detacher",
        file: "objects/src/percpu_list/list_head.rs",
        model: "objects::percpu_list::loom::a_detached_list_ends_after_its_last_member",
        changes: &[(
            r"self.remaining.store(users + 1, Relaxed)",
            r"self.remaining.store(users, Relaxed)",
        )],
    },
    Structural {
        name: "revoked-object-that-ends-again",
        file: "objects/src/object/make.rs",
        model: "objects::percpu_list::loom::an_object_revoked_beside_its_last_put_ends_once",
        changes: &[(r"if state & State::REVOKED == 0 {", r"if true {")],
    },
    // The two kinds of objects.
    Structural {
        name: "drop-before-the-burial",
        file: "sync/src/refcount.rs",
        model: "objects::object::loom::the_last_put_of_a_prompt_object_meets_a_get",
        changes: &[(r"0 => return self.bury(),", r"0 => return true,")],
    },
    Structural {
        name: "block-that-is-freed-by-the-last-put",
        file: "objects/src/object.rs",
        model: "objects::object::loom::the_last_put_of_a_prompt_object_meets_a_get",
        changes: &[(
            r"unsafe { rcu::call(effect, head) };",
            r"unsafe { (self.0.as_ref().rcu.invoke())(head) };",
        )],
    },
    Structural {
        name: "prompt-object-that-is-dropped-again",
        file: "objects/src/object/make.rs",
        model: "objects::object::loom::the_last_put_of_a_prompt_object_meets_a_get",
        changes: &[(
            r"free::<T, S, H, L>(raw, state & State::LATE != 0)",
            r"free::<T, S, H, L>(raw, true)",
        )],
    },
    Structural {
        name: "late-object-that-is-dropped-by-the-last-put",
        file: "objects/src/object/make.rs",
        model: "objects::radix::loom::a_borrow_meets_a_close",
        changes: &[(r"if state & State::LATE != 0 {", r"if false {")],
    },
    // Weak references.
    Structural {
        name: "node-that-still-leads-to-an-ended-block",
        file: "objects/src/object/weak.rs",
        model: "objects::object::weak::loom::an_upgrade_races_with_the_last_put",
        changes: &[(r"node.block.store(ptr::null_mut(), Relaxed);", "")],
    },
    Structural {
        name: "upgrade-outside-of-a-section",
        file: "objects/src/object/weak.rs",
        model: "objects::object::weak::loom::an_upgrade_races_with_the_last_put",
        changes: &[(r"let _section = rcu::read_lock();", "")],
    },
    Structural {
        name: "pointer-of-a-node-read-before-the-section",
        file: "objects/src/object/weak.rs",
        model: "objects::object::weak::loom::an_upgrade_races_with_the_last_put",
        changes: &[
            (
                r"let _section = rcu::read_lock();",
                r"let found = node.block.load(Relaxed); let _section = rcu::read_lock();",
            ),
            (
                r"NonNull::new(node.block.load(Relaxed))?",
                r"NonNull::new(found)?",
            ),
        ],
    },
    Structural {
        name: "first-weak-reference-of-a-quiet-object",
        file: "objects/src/object/weak.rs",
        model: "objects::object::weak::loom::an_upgrade_races_with_the_last_put_of_a_quiet_object",
        changes: &[(r"header.state.end_quiet();", "")],
    },
    Structural {
        name: "first-weak-reference-of-two-threads",
        file: "objects/src/object/weak.rs",
        model: "objects::object::weak::loom::two_threads_make_the_first_weak_reference",
        changes: &[(
            r"header.rcu.owner_word().compare_exchange(
        ptr::null_mut(),
        node.as_ptr().cast(),
        Release,
        Acquire,
    );",
            r"Ok::<_, *mut rcu::Head>(header.rcu.owner_word().swap(node.as_ptr().cast(), Release));",
        )],
    },
    // Slabs.
    Structural {
        name: "slab-that-goes-at-once",
        file: "slab/src/cache.rs",
        model: "slab::loom::a_slab_is_kept_for_readers_of_its_objects",
        changes: &[(
            r"unsafe { rcu::call_later(slab.effect(), WEIGHT, slab.head()) };",
            r"unsafe { (slab.head().as_ref().invoke())(slab.head()) };",
        )],
    },
    Structural {
        name: "magazine-that-goes-while-it-is-looked-at",
        file: "slab/src/cache.rs",
        model: "slab::loom::a_look_at_the_figures_meets_a_shrink_with_sequences",
        changes: &[(r"let _draining = self.draining.lock();", "")],
    },
    Structural {
        name: "upgrade-of-what-is-gone",
        file: "slab/src/arc.rs",
        model: "slab::arc::loom::an_upgrade_meets_the_last_users",
        changes: &[(
            r"if !self.counts().users.get() {",
            r"if !self.counts().users.get() && false {",
        )],
    },
    Structural {
        name: "choice-that-is-made-twice",
        file: "slab/src/backing.rs",
        model: "slab::loom::all_agree_on_what_memory_comes_from",
        changes: &[(
            r"match self.0.compare_exchange(OPEN, code, Relaxed, Relaxed) {",
            r"let there = self.0.load(Relaxed);
        if there == OPEN {
            self.0.store(code, Relaxed);
        }
        match if there == OPEN { Ok(there) } else { Err(there) } {",
        )],
    },
    // The magazines of the CPUs.
    Structural {
        name: "magazines-without-their-lock",
        file: "slab/src/local/locked.rs",
        model: "slab::local::loom::two_take_and_free_on_one_cpu",
        changes: &[
            (r"self.lock.lock(TAG);", ""),
            (r"unsafe { self.lock.unlock(TAG) };", ""),
        ],
    },
    Structural {
        name: "drain-that-stops-no-exchange",
        file: "slab/src/local/rseq.rs",
        model: "slab::local::loom::an_exchange_meets_a_drain",
        changes: &[(r"self.stopped.store(true, Relaxed);", "")],
    },
    Structural {
        name: "drain-that-stops-no-magazine",
        file: "slab/src/local/rseq.rs",
        model: "slab::local::loom::an_exchange_with_the_depot_meets_a_drain",
        changes: &[(r"self.stopped.store(true, Relaxed);", "")],
    },
    Structural {
        name: "drain-without-the-first-restart",
        file: "slab/src/local/rseq.rs",
        model: "slab::local::loom::an_exchange_meets_a_drain",
        changes: &[(
            r"// (T)
        if let Err(refused) = sequence::restart(self.area) {",
            r"if let Err(refused) = Ok::<(), NotRestarted>(()) {",
        )],
    },
    Structural {
        name: "drain-without-the-second-restart",
        file: "slab/src/local/rseq.rs",
        model: "slab::local::loom::a_take_and_a_free_meet_a_drain",
        changes: &[(
            r"// (V)
        if let Err(refused) = sequence::restart(self.area) {",
            r"if let Err(refused) = Ok::<(), NotRestarted>(()) {",
        )],
    },
    Structural {
        name: "drain-that-ends-before-the-second-restart",
        file: "slab/src/local/rseq.rs",
        model: "slab::local::loom::an_exchange_meets_a_drain",
        changes: &[(
            r"// (V)
        if let Err(refused) = sequence::restart(self.area) {",
            r"self.stopped.store(false, Relaxed);
        if let Err(refused) = sequence::restart(self.area) {",
        )],
    },
    Structural {
        name: "exchange-that-is-not-stopped",
        file: "slab/src/local/rseq/model.rs",
        model: "slab::local::loom::an_exchange_meets_a_drain",
        changes: &[(
            r"if sequence.step(|| previous.lacks(lack))? || sequence.is_stopped(cpus)? {",
            r"if sequence.step(|| previous.lacks(lack))? {",
        )],
    },
    Structural {
        name: "magazine-that-is-not-stopped",
        file: "slab/src/local/rseq/model.rs",
        model: "slab::local::loom::an_exchange_with_the_depot_meets_a_drain",
        changes: &[(
            r"if !sequence.step(|| previous.lacks(lack))? || sequence.is_stopped(cpus)? {",
            r"if !sequence.step(|| previous.lacks(lack))? {",
        )],
    },
    Structural {
        name: "sequence-that-is-not-interrupted",
        file: "sync/src/sequence/model.rs",
        model: "slab::local::loom::two_take_and_free_on_one_cpu",
        changes: &[(
            r"*interruptions += 1;
        Self",
            r"Self",
        )],
    },
    Structural {
        name: "sequence-that-is-not-restarted",
        file: "sync/src/sequence/model.rs",
        model: "slab::local::loom::a_take_and_a_free_meet_a_drain",
        changes: &[(r"*interruptions.lock() += 1;", "")],
    },
    Structural {
        name: "commit-before-the-object-is-taken",
        file: "slab/src/local/rseq/model.rs",
        model: "slab::local::loom::two_take_and_free_on_one_cpu",
        changes: &[(
            r"let object = sequence.step(|| rounds.objects[last].load(Relaxed))?;
        sequence.step(|| rounds.tally.store(tally - 1 + HIT, Relaxed))?;",
            r"sequence.step(|| rounds.tally.store(tally - 1 + HIT, Relaxed))?;
        let object = sequence.step(|| rounds.objects[last].load(Relaxed))?;",
        )],
    },
    Structural {
        name: "commit-before-the-object-is-stored",
        file: "slab/src/local/rseq/model.rs",
        model: "slab::local::loom::two_take_and_free_on_one_cpu",
        changes: &[(
            r"sequence.step(|| place.store(object.as_ptr(), Relaxed))?;
        sequence.step(|| rounds.tally.store(tally + 1, Relaxed))?;",
            r"sequence.step(|| rounds.tally.store(tally + 1, Relaxed))?;
        sequence.step(|| place.store(object.as_ptr(), Relaxed))?;",
        )],
    },
    // Leaves that are found without a walk, and those that are kept.
    Structural {
        name: "node-that-is-kept-for-its-count-alone",
        file: "objects/src/radix/share.rs",
        model: "objects::radix::loom::a_tree_goes_while_a_reader_of_another_is_in_its_leaf",
        changes: &[(
            r"node.owner() != before || !node.is_sole()",
            r"!node.is_sole()",
        )],
    },
    Structural {
        name: "look-at-the-token-of-a-leaf-that-was-found",
        file: "objects/src/radix.rs",
        model: "objects::radix::loom::a_write_in_a_leaf_that_was_found_meets_a_removal",
        changes: &[(r"if self.owns(&guard, index) {", r"if true {")],
    },
    Structural {
        name: "removed-leaf-that-stays-named",
        file: "objects/src/radix/cow.rs",
        model: "objects::radix::loom::a_write_meets_the_removal_of_a_cached_leaf",
        changes: &[(r"self.forget(place.as_ptr().cast());", "")],
    },
    Structural {
        name: "copied-leaf-that-stays-named",
        file: "objects/src/radix/cow.rs",
        model: "objects::radix::loom::a_write_meets_the_copy_of_a_cached_leaf",
        changes: &[(r"self.forget(there);", "")],
    },
    Structural {
        name: "full-leaf-that-was-removed",
        file: "objects/src/radix.rs",
        model: "objects::radix::loom::a_full_leaf_meets_its_removal",
        changes: &[(r"&& self.tree.owns(self.leaf, self.index)", "")],
    },
    Structural {
        name: "full-leaf-that-was-copied",
        file: "objects/src/radix.rs",
        model: "objects::radix::loom::a_full_leaf_meets_its_copy",
        changes: &[(r"&& self.tree.owns(self.leaf, self.index)", "")],
    },
    Structural {
        name: "hint-without-a-version",
        file: "objects/src/free_hint.rs",
        model: "objects::free_hint::loom::a_look_meets_the_return_of_a_first_leaf",
        changes: &[(r".wrapping_add(VERSION)", "")],
    },
    Structural {
        name: "full-table-that-is-not-confirmed",
        file: "objects/src/free_hint.rs",
        model: "objects::free_hint::loom::an_open_meets_a_limit_that_is_lowered_after_a_close",
        changes: &[(r">= limit && self.is_confirmed(hint)", r">= limit")],
    },
    // The table.
    Structural {
        name: "marked-hint-that-shows-a-full-table",
        file: "objects/src/free_hint.rs",
        model: "fdtable::loom::an_open_of_a_full_table_meets_a_close",
        changes: &[(
            r"let Some(hint) = self.hint() else {
            return false;
        };
        // (l)",
            r"let hint = Hint(self.searched.hint.load(Acquire));
        // (l)",
        )],
    },
    Structural {
        name: "listed-leaf-that-a-search-passes-over",
        file: "fdtable/src/open.rs",
        model: "fdtable::loom::an_open_meets_a_leaf_that_becomes_empty_and_full",
        changes: &[(
            r"Mark::FreedSince => self.free_hint.mark(),",
            r"Mark::FreedSince => {}",
        )],
    },
    Structural {
        name: "open-that-does-not-confirm-its-hint",
        file: "fdtable/src/open.rs",
        model: "fdtable::loom::an_open_meets_closes_in_its_leaf_and_below",
        changes: &[(r"|| !self.free_hint.is_confirmed(hint)", "")],
    },
    Structural {
        name: "pair-that-does-not-confirm-its-hint",
        file: "fdtable/src/pair.rs",
        model: "fdtable::loom::a_pair_meets_closes_in_its_leaf_and_below",
        changes: &[(r"|| !self.free_hint.is_confirmed(hint)", "")],
    },
    Structural {
        name: "first-leaf-that-is-looked-at-once",
        file: "fdtable/src/open.rs",
        model: "fdtable::loom::an_open_meets_closes_in_a_leaf_that_a_child_has_too",
        changes: &[(r"&& first.is_full()", "")],
    },
    Structural {
        name: "close-that-looks-once",
        file: "fdtable/src/close.rs",
        model: "fdtable::loom::two_that_open_meet_in_their_closes",
        changes: &[(
            r"return match reader.is_vacant(index_of(fd)) {",
            r"return match true {",
        )],
    },
    // The data of slots.
    Structural {
        name: "version-of-a-closed-slot",
        file: "objects/src/radix/slot_data.rs",
        model: "objects::radix::loom::slot_data::a_reader_tells_two_uses_with_the_same_flags_apart",
        changes: &[(
            r"cells.stamp.store(self.stamp(bit).next().0, Release);",
            r"cells.stamp.store(self.stamp(bit).with_flags(0).0, Release);",
        )],
    },
    Structural {
        name: "word-of-a-closed-slot",
        file: "objects/src/radix/slot_data.rs",
        model: "objects::radix::loom::slot_data::a_reader_tells_a_use_from_a_plain_one",
        changes: &[(r"cells.word.store(0, Release);", "")],
    },
    Structural {
        name: "mark-of-an-exchange-under-way",
        file: "objects/src/radix/slot_data.rs",
        model: "objects::radix::loom::slot_data::a_reader_tells_two_objects_with_other_flags_apart",
        changes: &[(r"cells.stamp.store(next.0 | Stamp::CHANGING, Relaxed);", "")],
    },
    Structural {
        name: "look-at-the-mark-of-an-exchange",
        file: "objects/src/radix/slot_data.rs",
        model: "objects::radix::loom::slot_data::a_reader_tells_two_objects_with_other_flags_apart",
        changes: &[(r"&& !stamp.is_changing()", "")],
    },
    Structural {
        name: "version-of-an-exchange",
        file: "objects/src/radix/slot_data.rs",
        model: "objects::radix::loom::slot_data::a_reader_tells_two_objects_with_the_same_flags_apart",
        changes: &[
            (
                r"let next = self.stamp(bit).next();",
                r"let next = self.stamp(bit);",
            ),
            (r"next.next().with_flags", r"next.with_flags"),
        ],
    },
    Structural {
        name: "word-that-is-stored-after-an-exchange",
        file: "objects/src/radix/slot_data.rs",
        model: "objects::radix::loom::slot_data::a_reader_tells_two_objects_with_other_flags_apart",
        changes: &[
            (
                r"cells.word.store(data.word, Release);
        let before = exchange();",
                r"let before = exchange();",
            ),
            (
                r"        before
    }",
                r"        cells.word.store(data.word, Release);
        before
    }",
            ),
        ],
    },
    Structural {
        name: "second-look-at-a-stamp",
        file: "objects/src/radix/slot_data.rs",
        model: "objects::radix::loom::slot_data::a_reader_tells_two_uses_with_the_same_flags_apart",
        changes: &[(r"stamp == after && ", "")],
    },
    Structural {
        name: "data-that-is-read-without-the-lock",
        file: "objects/src/radix/leaf.rs",
        model: "objects::radix::loom::slot_data::a_reader_that_takes_the_lock_finds_one_moment_too",
        changes: &[(
            r"// SAFETY: the leaf is not written here.
        let locked = unsafe { self.leaf.lock(index) };",
            r"let (locked, _) = (self.leaf, index);",
        )],
    },
    Structural {
        name: "second-walk-of-a-duplicate",
        file: "objects/src/radix.rs",
        model: "objects::radix::loom::a_duplicate_meets_a_replacement",
        changes: &[(
            r"            // (O)
            cold_path();
            relax(0);",
            r"            let _ = relax;
            return None;",
        )],
    },
    Structural {
        name: "section-around-the-reference-of-a-duplicate",
        file: "objects/src/radix.rs",
        model: "objects::radix::loom::a_duplicate_meets_the_last_put",
        changes: &[(
            r"self.tree.borrow(slot, &section)?.upgrade()",
            r"{
                    let found = self.tree.borrow(slot, &section)?;
                    // SAFETY: none.
                    unsafe { core::ptr::drop_in_place(ptr::from_ref(&self.reader).cast_mut()) };
                    found.upgrade()
                }",
        )],
    },
    // Owned lookups by sequences.
    Structural {
        name: "restart-of-sequences-in-a-grace-period",
        file: "sync/src/fence/model.rs",
        model: "objects::radix::owned::loom::a_sequence_meets_the_last_put",
        changes: &[(
            r"    if sequence::model::are_there() {
        sequence::model::interrupt_all();
    }",
            "",
        )],
    },
    Structural {
        name: "sequence-of-a-thread-without-a-record",
        file: "sync/src/rcu/reader.rs",
        model: "objects::radix::owned::loom::a_first_lookup_meets_the_last_put",
        changes: &[(
            r"    Area::with_offset(own_or_none().own.area.load(Relaxed))",
            r"    Area::find()",
        )],
    },
    Structural {
        name: "walk-outside-of-the-sequence",
        file: "objects/src/radix/owned/model.rs",
        model: "objects::radix::owned::loom::a_sequence_meets_the_removal_of_the_leaf",
        changes: &[(
            r"    run(|sequence| {
        let Some(leaf) = walk(tree, slot / BITS, sequence)? else {
            return Ok(NOTHING);
        };",
            r"    let Some(leaf) = run(|sequence| walk(tree, slot / BITS, sequence)) else {
        return NOTHING;
    };
    run(|sequence| {",
        )],
    },
    Structural {
        name: "repair-of-a-dead-count-after-a-sequence",
        file: "objects/src/object.rs",
        model: "objects::radix::owned::loom::a_sequence_meets_the_last_put",
        changes: &[(
            r"            if raw.addr().get() & IN_PART != 0 || RefCount::is_dead(before) {
                return None;",
            r"            if raw.addr().get() & IN_PART != 0 || RefCount::is_dead(before) {
                // SAFETY: none.
                let _ = unsafe { Header::of(raw) }.count.get();
                return None;",
        )],
    },
    Structural {
        name: "completion-of-a-revival-after-a-sequence",
        file: "objects/src/object.rs",
        model: "objects::radix::owned::loom::a_sequence_meets_the_last_put_of_a_holder",
        changes: &[(
            r"unsafe { Header::of(raw) }.count.complete_get(before);",
            r"unsafe { Header::of(raw) };",
        )],
    },
    Structural {
        name: "revocations-that-a-sequence-reads-first",
        file: "objects/src/radix/owned/model.rs",
        model: "objects::radix::owned::loom::a_sequence_meets_an_open_of_a_revoked_object",
        changes: &[
            (
                r"        let mut noted = sequence.step(|| usize::from(REVOCATIONS.any()))?;
",
                "",
            ),
            (
                r"        // (L) Acquire",
                r"        let mut noted = sequence.step(|| usize::from(REVOCATIONS.any()))?;
        // (L) Acquire",
            ),
        ],
    },
    // Counts by CPU.
    Structural {
        name: "spread-without-a-second-look",
        file: "sync/src/refcount/spread.rs",
        model: "sync::refcount::spread::loom::a_spread_meets_the_close_of_the_slot",
        changes: &[(r"if !is_in_slot() {", r"if false && !is_in_slot() {")],
    },
    Structural {
        name: "second-look-before-the-mark",
        file: "sync/src/refcount/spread.rs",
        model: "sync::refcount::spread::loom::a_spread_meets_the_close_of_the_slot",
        changes: &[
            (
                r"        // (C) Release: to the gets",
                r"        let is_there = is_in_slot();
        // (C) Release: to the gets",
            ),
            (r"if !is_in_slot() {", r"if !is_there {"),
        ],
    },
    Structural {
        name: "spread-that-does-not-pass-through-the-word",
        file: "sync/src/refcount/spread.rs",
        model: "sync::refcount::spread::loom::a_spread_meets_the_close_of_the_slot",
        changes: &[(r"        count.pass();", "")],
    },
    Structural {
        name: "spread-count-without-a-bias",
        file: "sync/src/refcount.rs",
        model: "sync::refcount::spread::loom::a_put_meets_the_close_beside_another_holder",
        changes: &[
            (
                r".compare_exchange(word, word + BIAS, Acquire, Relaxed)",
                r".compare_exchange(word, word, Acquire, Relaxed)",
            ),
            (
                r"let change = elsewhere - BIAS;",
                r"let change = elsewhere;",
            ),
            (
                r"            BIASED.. => AfterPut::Biased,",
                r"            0.. => AfterPut::Biased,",
            ),
        ],
    },
    Structural {
        name: "gather-by-two",
        file: "sync/src/refcount/spread.rs",
        model: "sync::refcount::spread::loom::two_closes_meet_a_holder",
        changes: &[(
            r"                .compare_exchange(home, unmarked, Acquire, Relaxed)
                .is_err()",
            r"                .compare_exchange(home, unmarked, Acquire, Relaxed)
                .is_err()
                && false",
        )],
    },
    Structural {
        name: "part-that-is-read-and-then-sealed",
        file: "sync/src/refcount/spread.rs",
        model: "sync::refcount::spread::loom::a_get_and_a_put_meet_the_close_of_a_spread_count",
        changes: &[(
            r"part.swap(SEALED, Acquire) - OPEN",
            r"{
                let count = part.load(Acquire);
                part.store(SEALED, Relaxed);
                count - OPEN
            }",
        )],
    },
    Structural {
        name: "put-that-does-not-gather",
        file: "sync/src/refcount/spread.rs",
        model: "sync::refcount::spread::loom::a_put_on_another_cpu_meets_the_close",
        changes: &[(
            r"AfterPut::Biased => self.gather(count),",
            r"AfterPut::Biased => false,",
        )],
    },
    Structural {
        name: "kept-reference-that-does-not-gather",
        file: "sync/src/refcount/spread.rs",
        model: "sync::refcount::spread::loom::a_reference_that_leaves_its_slot_gathers",
        changes: &[(
            r"if count.is_biased_now() {",
            r"if count.is_biased_now() && false {",
        )],
    },
    Structural {
        name: "count-at-one-moment-without-its-parts",
        file: "sync/src/refcount.rs",
        model: "sync::refcount::spread::loom::a_count_at_one_moment_meets_a_close",
        changes: &[(
            r"(word < BIASED).then(|| Self::references_in(word).unwrap_or(0))",
            r"Some(Self::references_in(word).unwrap_or(0))",
        )],
    },
    Structural {
        name: "sealed-part-that-counts",
        file: "sync/src/refcount/spread.rs",
        model: "sync::refcount::spread::loom::a_get_and_a_put_meet_the_close_of_a_spread_count",
        changes: &[(
            r"part.fetch_sub(1, Release) >= 0)",
            r"part.fetch_sub(1, Release) >= isize::MIN)",
        )],
    },
    Structural {
        name: "last-put-that-is-not-buried-by-the-gatherer",
        file: "sync/src/refcount.rs",
        model: "sync::refcount::spread::loom::a_spread_meets_two_closes",
        changes: &[(
            r"before + change == -1 && self.bury()",
            r"before + change == isize::MIN && self.bury()",
        )],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_of_the_table_is_once_in_its_file() {
        for mutation in TABLE {
            let file = crate::root().join("crates").join(mutation.file);
            let source = fs::read_to_string(file).unwrap();
            let mutated = mutation.apply(&source).unwrap();
            assert_ne!(mutated, source, "{}", mutation.name);
        }
    }
}
