//! Pages of lists that were made lately. Whoever asks for one again is shown it as it was made, once the database says
//! that nothing was written since: not one of its rows is read for that, nor printed.
//!
//! That is of use while nobody writes, and no use where somebody always does. So a page is kept only if nothing was
//! written between the page before it and its own: else nobody would find it, and each would ask in vain.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyperfleet_store::Moment;

use crate::resources::ListKey;

/// The most that is kept, in bytes: a hundred and more pages of twenty.
const MAX_BYTES: usize = 4 << 20;

/// What is larger is not kept: it would push out all the others.
const MAX_PAGE_BYTES: usize = MAX_BYTES / 8;

/// See above.
pub(crate) struct Pages<M = Moment>(Mutex<State<M>>);

struct State<M> {
    /// When all of them were made.
    moment: Option<M>,
    pages: Kept,
    size: usize,
}

type Kept = HashMap<Arc<ListKey>, Bytes>;

impl<M> Default for Pages<M> {
    fn default() -> Self {
        Self(Mutex::new(State { moment: None, pages: Kept::new(), size: 0 }))
    }
}

impl<M: Copy + Ord> Pages<M> {
    fn state(&self) -> MutexGuard<'_, State<M>> {
        // Nothing in here panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page as it was at some moment, if it is kept.
    pub(crate) fn get(&self, key: &ListKey) -> Option<(M, Bytes)> {
        let state = self.state();
        Some((state.moment?, state.pages.get(key)?.clone()))
    }

    /// Keeps a page that was made at some moment.
    pub(crate) fn keep(&self, key: &Arc<ListKey>, moment: M, page: &Bytes) {
        let size = page.len() + key.size();
        // What goes is let go of when nobody has to wait for it.
        let (is_worth_it, _old) = self.state().arrive_at(moment);
        if !is_worth_it || size > MAX_PAGE_BYTES {
            return;
        }
        // A page was printed into more room than it needed, and would hold on to it.
        let page = Bytes::copy_from_slice(page);
        let _old = self.state().put(key, moment, page, size);
    }
}

impl<M: Copy + Ord> State<M> {
    /// Whether a page that was made at a moment is worth keeping, and those that nobody will find any more.
    fn arrive_at(&mut self, moment: M) -> (bool, Kept) {
        if self.moment < Some(moment) {
            self.moment = Some(moment);
            return (false, self.clear());
        }
        (self.moment == Some(moment), Kept::new())
    }

    /// Returns the pages that had to go for it.
    fn put(&mut self, key: &Arc<ListKey>, moment: M, page: Bytes, size: usize) -> Kept {
        // It may have moved on.
        if self.moment != Some(moment) {
            return Kept::new();
        }
        // Those that are still asked for are soon back.
        let old = if self.size + size > MAX_BYTES { self.clear() } else { Kept::new() };
        if self.pages.insert(key.clone(), page).is_none() {
            self.size += size;
        }
        old
    }

    fn clear(&mut self) -> Kept {
        self.size = 0;
        std::mem::take(&mut self.pages)
    }
}

#[cfg(test)]
mod tests {
    use hyperfleet_core::Sight;

    use super::*;

    fn key(raw: &str) -> Arc<ListKey> {
        Arc::new(ListKey::new("clusters".to_owned(), Some(raw.to_owned()), Sight::everything()))
    }

    #[test]
    fn a_page_is_kept_once_nothing_was_written_between_two() {
        let (early, late) = (1, 2);
        let (pages, page) = (Pages::default(), Bytes::from_static(b"page"));
        pages.keep(&key("a"), early, &page);
        assert!(pages.get(&key("a")).is_none(), "it may be that somebody always writes");
        pages.keep(&key("b"), early, &page);
        assert_eq!(pages.get(&key("b")), Some((early, page.clone())));

        pages.keep(&key("a"), late, &page);
        assert!(pages.get(&key("b")).is_none(), "something was written since");
        pages.keep(&key("a"), early, &page);
        assert!(pages.get(&key("a")).is_none(), "it was made before that");
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let pages = Pages::default();
        let keep = |raw: &str, size| pages.keep(&key(raw), 1, &Bytes::from(vec![b'x'; size]));
        keep("first", 1);
        keep("huge", MAX_PAGE_BYTES);
        assert!(pages.get(&key("huge")).is_none());
        for number in 0..100 {
            let raw = number.to_string();
            keep(&raw, MAX_PAGE_BYTES / 2);
            keep(&raw, MAX_PAGE_BYTES / 2);
            assert!(pages.get(&key(&raw)).is_some());
            let state = pages.state();
            let held: usize = state.pages.iter().map(|(key, page)| key.size() + page.len()).sum();
            assert_eq!(state.size, held);
            assert!(held <= MAX_BYTES);
        }
    }
    #[test]
    fn a_page_takes_no_more_room_than_it_is_long() {
        let pages = Pages::default();
        for _ in 0..2 {
            let mut roomy = Vec::with_capacity(MAX_BYTES);
            roomy.push(b'x');
            pages.keep(&key("a"), 1, &Bytes::from(roomy));
        }
        let kept = pages.state().pages.remove(&key("a")).unwrap();
        let kept = kept.try_into_mut().expect("nobody else has it");
        assert!(kept.capacity() < 100, "{} bytes for one", kept.capacity());
    }
}
