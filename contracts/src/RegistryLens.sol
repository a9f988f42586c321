// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

struct RegistryQuestion {
    address registry;
    uint256 agentId;
    /// Who is asked about the signature: only if it is the agent wallet and has code. Zero asks nobody.
    address wallet;
    bytes32 digest;
    bytes signature;
}

struct RegistryRead {
    /// False when the call failed on less gas than its cap, or was not made: no evidence either way.
    bool asked;
    bool success;
    /// Length of what came back, of which `data` is the beginning.
    uint256 size;
    bytes data;
}

struct RegistryAnswer {
    uint256 chainId;
    uint256 registryCodeSize;
    RegistryRead agentWallet;
    RegistryRead owner;
    RegistryRead tokenURI;
    uint256 walletCodeSize;
    bytes walletCodePrefix;
    RegistryRead erc1271;
}

/// Reads what a payee check needs of an ERC-8004 identity registry, at one block, in one `eth_call` without a `to`:
/// the creation code runs and returns abi.encode(RegistryAnswer) in the place of contract code. That limits the answer
/// to 24,576 bytes, so a tokenURI is cut at 16 KiB; `size` says so.
///
/// Nothing is decoded here. What an address without code, an older build or a liar answers must reach the checker as it
/// came: an empty answer is no zero wallet. And nothing an answer holds can cost more than its cap: return data is copied
/// up to a limit, and every call has its own gas.
contract RegistryLens {
    /// The call has too little gas for all questions at their caps.
    error Starved();

    uint256 private constant WORD_GAS = 500_000;
    uint256 private constant URI_GAS = 6_000_000;
    uint256 private constant SIGNATURE_GAS = 3_000_000;
    // What stays here: 1/64 of each call, copying, and 200 gas for each byte of the answer.
    uint256 private constant OWN_GAS = 5_000_000;

    uint256 private constant WORD_BYTES_MAX = 64; // a little more than one word shows that it is not one
    uint256 private constant URI_BYTES_MAX = 16_384 + 64; // with offset and length
    uint256 private constant CODE_PREFIX_BYTES = 23; // an EIP-7702 designator is exactly this long

    constructor(RegistryQuestion memory q) {
        if (gasleft() < 2 * WORD_GAS + URI_GAS + SIGNATURE_GAS + OWN_GAS) revert Starved();
        RegistryAnswer memory a;
        a.chainId = block.chainid;
        a.registryCodeSize = q.registry.code.length;
        a.agentWallet =
            _read(q.registry, abi.encodeWithSignature("getAgentWallet(uint256)", q.agentId), WORD_GAS, WORD_BYTES_MAX);
        a.owner = _read(q.registry, abi.encodeWithSignature("ownerOf(uint256)", q.agentId), WORD_GAS, WORD_BYTES_MAX);
        a.tokenURI = _read(q.registry, abi.encodeWithSignature("tokenURI(uint256)", q.agentId), URI_GAS, URI_BYTES_MAX);

        (bool known, address wallet) = _address(a.agentWallet);
        if (known) {
            a.walletCodeSize = wallet.code.length;
            a.walletCodePrefix = _codePrefix(wallet);
            if (wallet != address(0) && wallet == q.wallet && a.walletCodeSize != 0) {
                bytes memory data =
                    abi.encodeWithSignature("isValidSignature(bytes32,bytes)", q.digest, q.signature);
                a.erc1271 = _read(wallet, data, SIGNATURE_GAS, WORD_BYTES_MAX);
            }
        }
        bytes memory out = abi.encode(a);
        assembly ("memory-safe") {
            return(add(out, 32), mload(out))
        }
    }

    function _read(address target, bytes memory data, uint256 gasMax, uint256 bytesMax)
        private
        view
        returns (RegistryRead memory r)
    {
        if (target.code.length == 0) {
            // Such a call succeeds with nothing. It is made by hand, so that no node's habits matter.
            return RegistryRead(true, true, 0, "");
        }
        bool ok;
        uint256 size;
        uint256 spare = gasleft() / 64 * 63;
        bytes memory out;
        assembly ("memory-safe") {
            ok := staticcall(gasMax, target, add(data, 32), mload(data), 0, 0)
            size := returndatasize()
            let kept := size
            if gt(kept, bytesMax) { kept := bytesMax }
            out := mload(0x40)
            mstore(0x40, add(out, and(add(kept, 63), not(31))))
            mstore(out, kept)
            returndatacopy(add(out, 32), 0, kept)
        }
        return RegistryRead(ok || spare >= gasMax, ok, size, out);
    }

    /// One word with twelve zero bytes in front, and nothing else, is an address.
    function _address(RegistryRead memory r) private pure returns (bool known, address account) {
        if (!r.success || r.size != 32) return (false, address(0));
        uint256 word = uint256(bytes32(r.data));
        if (word >> 160 != 0) return (false, address(0));
        return (true, address(uint160(word)));
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
