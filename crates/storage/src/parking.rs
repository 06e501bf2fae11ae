//! A partition gives the handle of its active segment up, and gets one again: see `actives`.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use corelog_format::Mark;
use corelog_io::{File, IoError, Open, Platform, Spawn};

use crate::actives::{Active, Holder, Park, Permit};
use crate::appender::Appender;
use crate::partition::{FileOf, Inner};
use crate::{Answer, Notice};

impl<P: Platform, A: Answer> Holder for Inner<P, A> {
    fn park(self: Rc<Self>) -> Park {
        match &*self.file.borrow() {
            None => return Park::Gone,
            // A task that has just ended its I/O may still have it for a moment.
            Some(active) if Rc::strong_count(&active.file) > 1 => return Park::NotNow,
            Some(_) if self.used.replace(false) => return Park::NotNow,
            Some(_) => {}
        }
        if !self.appender.borrow_mut().begin_parking() {
            return Park::NotNow;
        }
        let active = self.file.borrow_mut().take();
        let Active { file, permit } = active.expect("it was there a moment ago");
        let (permit, inner) = (permit.parking(), Rc::clone(&self));
        self.spawn_step(Appender::parked, async move { inner.let_go(file, permit).await });
        Park::Begun
    }
}

impl<P: Platform, A: Answer> Inner<P, A> {
    async fn let_go(self: &Rc<Self>, file: Rc<FileOf<P>>, permit: Permit) {
        let closed = match Rc::into_inner(file) {
            Some(file) => file.close().await,
            None => Ok(()),
        };
        // Some file systems tell of a lost write when the file is closed.
        if let Err(error) = closed {
            self.poison(error);
        }
        self.appender.borrow_mut().parked();
        drop(permit);
        self.pump();
    }

    /// Gets a handle for the active segment again, for what waits for one.
    pub(crate) async fn unpark(self: &Rc<Self>) {
        let permit = self.shared.actives().permit().await;
        match self.open_active().await {
            Ok(file) => {
                self.hold(Rc::new(file), permit);
                self.appender.borrow_mut().file_opened();
            }
            Err(error) => {
                drop(permit);
                self.shared.tell(&Notice::NoFile(&error));
                self.appender.borrow_mut().no_file(Arc::new(error));
            }
        }
        self.pump();
    }

    /// True where the log at `end` is as a close leaves it: of exact length, durable, its mark and
    /// index stored. So is one that was opened and not appended to.
    pub(crate) fn is_in_order(&self, end: Mark) -> bool {
        let appender = self.appender.borrow();
        appender.reserved() == end.position
            && appender.durable() == end
            && self.marks.stored() == end
            && !self.index.borrow().is_unsaved()
    }

    /// The active file, opened anew and locked.
    pub(crate) async fn open_active(&self) -> Result<FileOf<P>, IoError> {
        let path = self.log_path(self.segments.borrow().active());
        let dsync = self.config.enforce_fsync;
        let how = Open { write: true, dsync, lock: true, ..Open::default() };
        self.shared.open(&path, how).await
    }

    /// `file` is the active segment's, open since the opening of the partition.
    pub(crate) fn enter(self: &Rc<Self>, file: Rc<FileOf<P>>) {
        let actives = self.shared.actives();
        self.hold(file, actives.enter());
        actives.park_surplus();
    }

    /// `file` is the active segment's, by `permit`.
    pub(crate) fn hold(self: &Rc<Self>, file: Rc<FileOf<P>>, permit: Permit) {
        *self.file.borrow_mut() = Some(Active { file, permit });
        let holder: Weak<Self> = Rc::downgrade(self);
        self.shared.actives().hold(holder);
    }

    /// Somebody waits for a handle and this partition may have come to rest: looks who has, when
    /// the task that brought it here has ended.
    pub(crate) fn look_for_rest(self: &Rc<Self>) {
        let actives = self.shared.actives();
        if !actives.wants() || !self.appender.borrow().is_at_rest() || !actives.begin_look() {
            return;
        }
        let (actives, spawn) = (Rc::clone(actives), self.shared.platform().spawn());
        let turn = spawn.yield_now();
        spawn.spawn(async move {
            turn.await;
            actives.look();
        });
    }
}
