//! Orders that a person tries before they take effect (`explain --what-if`, rule K5). The update loop builds the table that an
//! order would make, with the same function as every table, because it alone has the objects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::sleep;

use crate::model::{FailoverOrder, ServiceKey};
use crate::table::{Built, Published, Rules, Store, Table, Timers, build};

/// An order to try.
#[derive(Debug)]
pub struct Trial {
    service: ServiceKey,
    order: FailoverOrder,
    reply: oneshot::Sender<Published>,
    /// It stays with the order when the client leaves. Otherwise, clients that leave at once could fill the queue.
    turn: OwnedSemaphorePermit,
}

/// Sends orders to the update loop. Clones share it.
#[derive(Clone)]
pub struct Trials {
    /// Sends an order to the update loop that runs, or returns `false`.
    send: Arc<Mutex<Option<SendTrial>>>,
    /// One order at a time.
    turn: Arc<Semaphore>,
}

/// Sends an order to an update loop, or returns `false`: it has ended, or its queue is full.
pub(super) type SendTrial = Box<dyn Fn(Trial) -> bool + Send>;

/// The pause after an order. Readers of the API must not keep the update loop from publishing changes.
const PAUSE: Duration = Duration::from_millis(100);

// === impl Trials ===

impl fmt::Debug for Trials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trials").finish_non_exhaustive()
    }
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            send: Arc::default(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Trials {
    /// Directs orders to an update loop. `send` must not keep its queue open.
    pub(super) fn set_loop(&self, send: impl Fn(Trial) -> bool + Send + 'static) {
        *self.send.lock() = Some(Box::new(send));
    }

    /// Returns the table of this moment as it would be with an order for a service. Nothing is published. Returns `None` if no
    /// update loop runs, or if it is too busy.
    pub async fn table_with(&self, service: ServiceKey, order: FailoverOrder) -> Option<Published> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let (reply, table) = oneshot::channel();
        let trial = Trial {
            service,
            order,
            reply,
            turn,
        };
        if !self.send.lock().as_ref()?(trial) {
            return None;
        }
        table.await.ok()
    }
}

// === impl Trial ===

impl Trial {
    /// Builds the table with the order, and sends it, unless the client has left. `now` is the current one. The next order waits
    /// for a pause.
    pub(super) fn answer(self, now: &Published, store: &Store, rules: &Rules, timers: &Timers) {
        let Self {
            service,
            order,
            reply,
            turn,
        } = self;
        if let Some(last) = &now.table
            && !reply.is_closed()
        {
            let table = table_with(last, service, order, store, rules, timers);
            _ = reply.send(Published {
                table: Some(table),
                ..now.copy_without_table()
            });
        }
        tokio::spawn(async move {
            sleep(PAUSE).await;
            drop(turn);
        });
    }
}

/// Builds the table that follows `last` with an order for a service.
pub fn table_with(
    last: &Table,
    service: ServiceKey,
    order: FailoverOrder,
    store: &Store,
    rules: &Rules,
    timers: &Timers,
) -> Table {
    let dirty = [service.clone()].into();
    let rules = Rules {
        trial: Some((service, order)),
        ..rules.clone()
    };
    let Built { table, .. } = build(last, store, &dirty, &rules, timers);
    table
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;
    use crate::table::failover::OrderOrigin;
    use crate::testing::{Server, backends, rules, service_mirror};

    fn web() -> ServiceKey {
        ServiceKey {
            namespace: "prod".parse().unwrap(),
            service: "web".parse().unwrap(),
        }
    }

    /// The order takes effect at once, whatever the delays of the order that is set, and the next table does not know it.
    #[test]
    fn order_is_tried_on_the_objects_of_this_moment() {
        let mut ordered = rules();
        ordered.service_failover = [(web(), "east:west".parse().unwrap())].into();
        let objects: Vec<_> = ["east", "west"]
            .into_iter()
            .zip(["10.96.0.1", "10.96.0.2"])
            .flat_map(|(cluster, ip)| {
                let slice = backends("prod", &format!("web-{cluster}"), true, true);
                [service_mirror("prod", "web", cluster, ip), slice]
            })
            .collect();
        let mut server = Server::new(ordered.clone());
        server.see(1, &objects);
        let store = crate::testing::store(&objects);
        let try_order = |order: &str| {
            let order = order.parse().unwrap();
            let (last, timers) = (&server.table, &server.timers);
            let table = table_with(last, web(), order, &store, &ordered, timers);
            let web = table.service("prod", "web").unwrap();
            let failover = web.failover.clone().unwrap();
            assert_eq!(failover.origin, OrderOrigin::Trial);
            (failover.answering_text(), web.name_addresses.v4.to_vec())
        };
        let address = |text: &str| text.parse().unwrap();
        assert_eq!(
            try_order("west:east"),
            ("west".to_owned(), vec![address("10.96.0.2")])
        );
        assert_eq!(
            try_order("east=0:west"),
            ("west".to_owned(), vec![address("10.96.0.2")])
        );
        let unchanged = server.table.service("prod", "web").unwrap();
        assert_eq!(*unchanged.name_addresses.v4, [address("10.96.0.1")]);
    }

    #[tokio::test]
    async fn order_without_an_update_loop_has_no_table() {
        let trials = Trials::default();
        let order: FailoverOrder = "east".parse().unwrap();
        assert!(trials.table_with(web(), order.clone()).await.is_none());
        trials.set_loop(|_| false);
        assert!(trials.table_with(web(), order.clone()).await.is_none());
        // The loop ends before it answers.
        trials.set_loop(|_| true);
        assert!(trials.table_with(web(), order).await.is_none());
    }

    /// A client that asks and leaves, again and again, keeps neither the update loop nor its queue busy.
    #[tokio::test(start_paused = true)]
    async fn client_that_leaves_does_not_make_room_for_the_next_order() {
        let (queue, mut inbox) = mpsc::channel(8);
        let trials = Trials::default();
        trials.set_loop(move |trial| queue.try_send(trial).is_ok());
        let order: FailoverOrder = "east".parse().unwrap();
        let ask_and_leave = async |wait: Duration| {
            let table = timeout(wait, trials.table_with(web(), order.clone())).await;
            assert!(table.is_err());
        };
        ask_and_leave(Duration::ZERO).await;
        let first = inbox.try_recv().unwrap();
        ask_and_leave(Duration::from_secs(9)).await;
        assert!(inbox.try_recv().is_err());
        let (store, timers) = (Store::default(), Timers::default());
        let now = Published {
            table: Some(Table::default()),
            ..Published::default()
        };
        first.answer(&now, &store, &rules(), &timers);
        ask_and_leave(PAUSE / 2).await;
        assert!(inbox.try_recv().is_err());
        ask_and_leave(PAUSE).await;
        assert!(inbox.try_recv().is_ok());
    }
}
