"""What a training script imports: ``quoracy.connect``, ``ranks``, ``participate``, ``join``.

    client/     what the kinds share: session, connection, drivers, heartbeat process, supervisor; it knows no kind
    cluster/    a worker: barriers, states, commands of operators
    federated/  a participant: fetches, trains, uploads
    witnessed/  a member of a witnessed run, and the exchange of results between members
    ranks/      a loop among equals that share nothing but a store

The same role has the same file name in each: ``api`` (what ``quoracy`` exports, with its documentation), ``session``
(the member's side of the protocol, without I/O; the simulator drives it too), ``client`` (what the script has asked for
and not been told yet), ``operations`` (what the calls do, as generators), ``heartbeat`` (what a heartbeat says),
``events`` (what people are told). Public names are those of ``quoracy``; everything here is private by its place.
"""
