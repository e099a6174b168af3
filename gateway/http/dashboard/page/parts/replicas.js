// Replicas and brokers in words: one place that judges them for all pages.

/** The replica that leads a broker; undefined where none does or it is not known. */
export const masterOf = (broker) => broker.replicas.find((each) => each.role === "master");

/** The controllers that elect, as {size, there, leader}: their number, those that answer, and who leads, if any.  Others
 * run, and are not members. */
export function quorumOf(controllers) {
  const members = controllers.filter((each) => each.state !== "outside");
  return { size: members.length, there: members.filter((each) => each.state !== "away").length, leader: members.find((each) => each.state === "leads") };
}

/** What a replica is, as {kind, word} of a state. */
export function stateOfReplica(replica) {
  if (replica.role === "away") return { kind: "bad", word: replica.problem ? `away: ${replica.problem}` : "away" };
  if (replica.role === "nobody") return { kind: "bad", word: replica.problem || "follows no master" };
  if (replica.problem) return { kind: "warn", word: replica.problem };
  if (replica.role === "master") return { kind: "ok", word: "master" };
  if (replica.isObserver) return { kind: "ok", word: "observer" };
  return replica.isInSync ? { kind: "ok", word: "in set" } : { kind: "warn", word: "catching up" };
}

/** How many replicas a broker may lose while it goes on confirming; null where its rule does not tell.
 *
 * Rule `2-3`: two of three must have a message.  With `async` and `in-sync` the least size of the set is not told. */
export function lossesToStand(broker) {
  const needed = Number(/^(\d+)-\d+$/.exec(broker.rule ?? "")?.[1]);
  if (broker.replicas.length === 0 || !broker.isAvailable || !needed) return null;
  const there = broker.replicas.filter((each) => !each.isObserver && each.role !== "away").length;
  return Math.max(0, there - needed);
}

/** A replica's log, in words; empty where nothing is wrong with it. */
export function logProblems(log) {
  if (!log) return "";
  const words = [
    log.healed && `${log.healed} records healed`,
    log.corrupted && `${log.corrupted} records corrupt`,
    log.forked && `forked at ${log.forked}`,
    log.diverged?.length && `${log.diverged.length} parts diverged`,
    log.lost && `${log.lost} confirmed bytes given up`,
    log.copiesFrom && `copies from ${log.copiesFrom}`,
  ];
  return words.filter(Boolean).join(", ");
}
