// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

struct Call {
    address to;
    bytes data;
}

struct Probe {
    address asset;
    address payer;
    address payTo;
    bytes32 authNonce;
    bytes32 digest;
    bytes signature;
    Call[] candidates;
    uint256 gasMax;
}

struct Read {
    bool success;
    bytes data;
}

struct Erc1271 {
    bool asked;
    bool success;
    uint256 returnSize;
    bytes32 word;
}

struct Simulation {
    bool success;
    uint256 gasUsed;
    bytes returnData;
    Read payToBalanceAfter;
    uint256 payerCodeSizeAfter;
    Erc1271 erc1271After;
}

struct Answer {
    uint256 payerCodeSize;
    bytes payerCodePrefix;
    uint256 assetCodeSize;
    Read authorizationState;
    Read payerBalance;
    Read payToBalance;
    Read domainSeparator;
    Read name;
    Read version;
    Read eip712Domain;
    Erc1271 erc1271;
    Simulation[] simulations;
}

struct BlockFacts {
    uint256 number;
    uint256 timestamp;
    uint256 chainId;
    uint256 baseFee;
    uint256[] laneBalances;
}

/// The frames a probe runs in. Every frame ends in a revert that carries its result out, which undoes
/// both its state changes and the warmth of what it touched. So no probe sees another, and measured
/// gas is what a transaction of its own would pay.
contract LensFrames {
    /// The call has too little gas to read the facts. An answer built from starved reads would be a lie.
    error Starved();
    error OnlyItself();

    uint256 private constant READ_GAS = 200_000;
    uint256 private constant READ_BYTES_MAX = 512;
    uint256 private constant RETURN_BYTES_MAX = 1024;
    uint256 private constant CODE_PREFIX_BYTES = 23; // an EIP-7702 designator is exactly this long

    // Seven reads at their cap, the 1/64 each level keeps, and room to encode the result.
    uint256 private constant FACTS_GAS = 1_800_000;
    // Enough to decode, copy and encode one answer whatever the frames below burned.
    uint256 private constant OWN_GAS = 400_000;
    // What a simulation keeps for itself: one balance read and the encoding.
    uint256 private constant FRAME_GAS = 300_000;

    function probe(Probe calldata p) external returns (Answer memory a) {
        if (gasleft() < FACTS_GAS + OWN_GAS) revert Starved();
        (bool read, bytes memory out) = _frame(abi.encodeCall(this.facts, (p)));
        if (!read) revert Starved();
        a = abi.decode(out, (Answer));

        if (a.payerCodeSize != 0) {
            (read, out) = _frame(abi.encodeCall(this.ask, (p.payer, p.digest, p.signature, p.gasMax)));
            if (read) a.erc1271 = abi.decode(out, (Erc1271));
        }

        Simulation[] memory ran = new Simulation[](p.candidates.length);
        uint256 count;
        while (count < ran.length) {
            (read, out) = _frame(abi.encodeCall(this.simulate, (p, count, a.payerCodeSize != 0)));
            // Without gas for a fair run there is no evidence either way: leave the candidate out.
            if (!read) break;
            ran[count] = abi.decode(out, (Simulation));
            if (ran[count++].success) break;
        }
        assembly ("memory-safe") {
            mstore(ran, count)
        }
        a.simulations = ran;
    }

    /// Always reverts, with an abi-encoded Answer that lacks `erc1271` and `simulations`.
    function facts(Probe calldata p) external view {
        _onlyItself();
        Answer memory a;
        a.payerCodeSize = p.payer.code.length;
        a.payerCodePrefix = _codePrefix(p.payer);
        a.assetCodeSize = p.asset.code.length;
        a.authorizationState =
            _read(p.asset, abi.encodeWithSignature("authorizationState(address,bytes32)", p.payer, p.authNonce));
        a.payerBalance = _balance(p.asset, p.payer);
        a.payToBalance = _balance(p.asset, p.payTo);
        a.domainSeparator = _read(p.asset, abi.encodeWithSignature("DOMAIN_SEPARATOR()"));
        a.name = _read(p.asset, abi.encodeWithSignature("name()"));
        a.version = _read(p.asset, abi.encodeWithSignature("version()"));
        a.eip712Domain = _read(p.asset, abi.encodeWithSignature("eip712Domain()"));
        _carry(abi.encode(a));
    }

    /// Always reverts, with an abi-encoded Erc1271.
    function ask(address payer, bytes32 digest, bytes calldata signature, uint256 gasMax) external view {
        _onlyItself();
        _carry(abi.encode(_ask(payer, digest, signature, gasMax)));
    }

    /// Always reverts: with an abi-encoded Simulation, or with nothing when the candidate failed on less gas than its cap.
    function simulate(Probe calldata p, uint256 index, bool payerHadCode) external {
        _onlyItself();
        Simulation memory s;
        address to = p.candidates[index].to;
        bytes memory data = p.candidates[index].data;
        // A transaction finds its destination warm. Asking for its code makes it warm here as well.
        bool hasCode = to.code.length != 0;
        uint256 given = _give(p.gasMax, FRAME_GAS);
        bool ok;
        uint256 used;
        assembly ("memory-safe") {
            let before := gas()
            ok := call(given, to, 0, add(data, 32), mload(data), 0, 0)
            used := sub(before, gas())
        }
        if (!ok && given < p.gasMax) _carry("");
        s.returnData = _returned(RETURN_BYTES_MAX);
        // A call to an address without code succeeds and does nothing, so it proves nothing.
        s.success = ok && hasCode;
        s.gasUsed = used;
        s.payerCodeSizeAfter = p.payer.code.length;
        if (s.success) {
            s.payToBalanceAfter = _balance(p.asset, p.payTo);
            if (!payerHadCode && s.payerCodeSizeAfter != 0) {
                s.erc1271After = _ask(p.payer, p.digest, p.signature, p.gasMax);
            }
        }
        _carry(abi.encode(s));
    }

    /// Apart from everything else: a chain without EIP-1559 does not know the instruction and burns what it is given.
    function baseFee() external view returns (uint256) {
        return block.basefee;
    }

    function _onlyItself() private view {
        if (msg.sender != address(this)) revert OnlyItself();
    }

    /// Runs a frame of this contract on all gas but what the answer needs.
    function _frame(bytes memory data) private returns (bool read, bytes memory out) {
        uint256 left = gasleft();
        if (left <= OWN_GAS) return (false, "");
        (, out) = address(this).call{gas: left - OWN_GAS}(data);
        // Frames carry whole words, or nothing when they ran dry.
        read = out.length != 0 && out.length % 32 == 0;
    }

    function _carry(bytes memory out) private pure {
        assembly ("memory-safe") {
            revert(add(out, 32), mload(out))
        }
    }

    /// The lesser of `cap` and what this frame can hand down while keeping `keep`.
    function _give(uint256 cap, uint256 keep) private view returns (uint256) {
        uint256 left = gasleft();
        uint256 spare = left > keep ? (left - keep) / 64 * 63 : 0;
        return cap < spare ? cap : spare;
    }

    /// `asked` stays false when the question failed on less gas than its cap: that is no answer.
    function _ask(address payer, bytes32 digest, bytes calldata signature, uint256 gasMax)
        private
        view
        returns (Erc1271 memory e)
    {
        bytes memory data = abi.encodeWithSignature("isValidSignature(bytes32,bytes)", digest, signature);
        uint256 given = _give(gasMax, FRAME_GAS / 2);
        bool ok;
        uint256 size;
        bytes32 word;
        assembly ("memory-safe") {
            ok := staticcall(given, payer, add(data, 32), mload(data), 0, 32)
            size := returndatasize()
            if gt(size, 31) { word := mload(0) }
        }
        if (!ok && given < gasMax) return e;
        return Erc1271(true, ok, size, word);
    }

    function _balance(address asset, address holder) private view returns (Read memory) {
        return _read(asset, abi.encodeWithSignature("balanceOf(address)", holder));
    }

    function _read(address target, bytes memory data) private view returns (Read memory r) {
        if (target.code.length == 0) return r;
        bool ok;
        uint256 size;
        assembly ("memory-safe") {
            ok := staticcall(READ_GAS, target, add(data, 32), mload(data), 0, 0)
            size := returndatasize()
        }
        if (size > READ_BYTES_MAX) return r;
        r.success = ok;
        r.data = _returned(READ_BYTES_MAX);
    }

    /// The last call's return data, cut at `max` so that a huge answer costs us nothing.
    function _returned(uint256 max) private pure returns (bytes memory out) {
        assembly ("memory-safe") {
            let size := returndatasize()
            if gt(size, max) { size := max }
            out := mload(0x40)
            mstore(0x40, add(out, and(add(size, 63), not(31))))
            mstore(out, size)
            returndatacopy(add(out, 32), 0, size)
        }
    }

    function _codePrefix(address account) private view returns (bytes memory out) {
        uint256 size = account.code.length;
        if (size > CODE_PREFIX_BYTES) size = CODE_PREFIX_BYTES;
        out = new bytes(size);
        assembly ("memory-safe") {
            extcodecopy(account, add(out, 32), 0, size)
        }
    }
}

/// Reads everything a decision about payments needs, at one block, in one `eth_call` without a `to`:
/// the creation code runs and returns abi.encode(BlockFacts, Answer[]) in the place of contract code.
/// So an answer must stay below 24,576 bytes, which limits how many probes share a call.
///
/// What the caller owes: gas for all of it. A question or a candidate that fails on less gas than `gasMax`
/// proves nothing and is reported as not asked or not run; without gas for the reads the whole call reverts.
contract Lens {
    // Per probe still to come: its reads, and 200 gas for each byte of its answer, which is paid as contract code.
    uint256 private constant PROBE_GAS = 2_300_000;
    uint256 private constant ANSWER_GAS = 1_000_000;
    uint256 private constant CANDIDATE_ANSWER_GAS = 500_000;
    uint256 private constant BASE_GAS = 300_000;
    uint256 private constant LANE_GAS = 10_000;
    uint256 private constant BASE_FEE_GAS = 20_000;
    uint256 private constant ARB_SYS_GAS = 20_000;

    constructor(Probe[] memory probes, address[] memory lanes) {
        // A contract under construction has no code to call, hence the helper.
        LensFrames frames = new LensFrames();

        uint256 reserve = BASE_GAS + lanes.length * LANE_GAS;
        for (uint256 i; i < probes.length; ++i) {
            reserve += PROBE_GAS + ANSWER_GAS + probes[i].candidates.length * CANDIDATE_ANSWER_GAS;
        }
        Answer[] memory answers = new Answer[](probes.length);
        for (uint256 i; i < probes.length; ++i) {
            reserve -= PROBE_GAS;
            uint256 left = gasleft();
            if (left <= reserve) revert LensFrames.Starved();
            answers[i] = frames.probe{gas: left - reserve}(probes[i]);
        }

        // Balances come last: they touch the lanes in this frame, which nothing rolls back.
        BlockFacts memory facts = BlockFacts(
            _number(), block.timestamp, block.chainid, 0, new uint256[](lanes.length)
        );
        try frames.baseFee{gas: BASE_FEE_GAS}() returns (uint256 fee) {
            facts.baseFee = fee;
        } catch {}
        for (uint256 i; i < lanes.length; ++i) {
            facts.laneBalances[i] = lanes[i].balance;
        }
        bytes memory out = abi.encode(facts, answers);
        assembly ("memory-safe") {
            return(add(out, 32), mload(out))
        }
    }

    /// The number in the block's header, which its receipts carry. Arbitrum's chains show a contract their parent chain's
    /// in its place, and tell their own through ArbSys. Other chains have no code at that address.
    function _number() private view returns (uint256 known) {
        known = block.number;
        if (address(0x64).code.length == 0) return known;
        if (gasleft() < 2 * ARB_SYS_GAS) revert LensFrames.Starved();
        assembly ("memory-safe") {
            mstore(0, shl(224, 0xa3b1b31d)) // arbBlockNumber()
            let ok := staticcall(ARB_SYS_GAS, 0x64, 0, 4, 0, 32)
            if and(ok, eq(returndatasize(), 32)) { known := mload(0) }
        }
    }
}
